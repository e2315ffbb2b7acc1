/* cuda_graph.cpp - CUDA graphs in a private pool, in C++: owners and scopes instead of counts.
 *
 * cuda_graph.c tells what begin, end and release count. Here a `pool` is one user of its pool, from
 * its constructor to its destructor, and a `capture_scope` is one more while it lasts. So the pool
 * is declared before the graphs that are captured in it, and goes after them.
 *
 *     c++ -std=c++17 cuda_graph.cpp -o cuda_graph $(pkg-config --cflags --libs pleat) -lpleat_sim
 *     PLEAT_CONF=driver:sim,sim:[capacity:192M] ./cuda_graph             # a GPU: -lcuda
 */
#include <pleat_cxx.hpp>

#include <cstdio>
#include <vector>

/* The driver's functions. With a CUDA toolkit include <cuda.h> instead. */
extern "C" {
int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuDevicePrimaryCtxRelease_v2(int device);
int cuCtxSetCurrent(void *context);
int cuStreamCreate(void **stream, unsigned flags);
int cuStreamSynchronize(void *stream);
int cuStreamDestroy_v2(void *stream);
int cuStreamBeginCapture_v2(void *stream, int mode);
int cuStreamEndCapture(void *stream, void **graph);
int cuMemsetD8Async(unsigned long long ptr, unsigned char byte, std::size_t n, void *stream);
int cuGraphInstantiateWithFlags(void **launchable, void *graph, unsigned long long flags);
int cuGraphLaunch(void *launchable, void *stream);
int cuGraphExecDestroy(void *launchable);
int cuGraphDestroy(void *graph);
}

namespace
{

constexpr std::size_t MIB = std::size_t{ 1 } << 20;

void require(int result)
{
    if (result != 0) {
        throw std::runtime_error("the driver returned " + std::to_string(result));
    }
}

/* A graph and the block that it writes. */
class step
{
  public:
    step(const pleat_cxx::pool &pool, std::size_t activation_bytes, void *stream)
    {
        pleat_cxx::capture_scope capture(
            pool, stream, [&] { return cuStreamBeginCapture_v2(stream, 1 /* thread local */); },
            [&] { return cuStreamEndCapture(stream, &graph_); });
        pleat_cxx::block activations(pool.handle(), 0, activation_bytes, stream);
        result_ = pleat_cxx::block(pool.handle(), 0, 4 * MIB, stream);
        require(cuMemsetD8Async(activations.get(), 1, activations.size(), stream));
        require(cuMemsetD8Async(result_.get(), 2, result_.size(), stream));
        activations.reset(); /* the next capture may have it */
        capture.end();
        require(cuGraphInstantiateWithFlags(&launchable_, graph_, 0));
    }

    step(const step &) = delete;
    step &operator=(const step &) = delete;

    ~step()
    {
        (void)cuGraphExecDestroy(launchable_);
        (void)cuGraphDestroy(graph_);
    }

    void launch(void *stream) const
    {
        require(cuGraphLaunch(launchable_, stream));
    }

  private:
    void *graph_ = nullptr;
    void *launchable_ = nullptr;
    pleat_cxx::block result_;
};

void run(const pleat_cxx::instance &gpu, void *stream)
{
    pleat_cxx::pool pool(gpu, 0);
    step large(pool, 64 * MIB, stream);
    step small(pool, 32 * MIB, stream);
    std::printf("two graphs: %u user, %llu MiB held\n", pool.users(),
                static_cast<unsigned long long>(pool.size() / MIB));
    large.launch(stream);
    small.launch(stream);
    require(cuStreamSynchronize(stream));
}

/* A context that is current, and a stream. */
void *open_stream()
{
    void *context = nullptr;
    void *stream = nullptr;
    require(cuInit(0));
    require(cuDevicePrimaryCtxRetain(&context, 0));
    require(cuCtxSetCurrent(context));
    require(cuStreamCreate(&stream, 1 /* non-blocking */));
    return stream;
}

} /* namespace */

int main()
{
    try {
        pleat_cxx::instance gpu; /* PLEAT_CONF alone */
        void *stream = open_stream();
        run(gpu, stream);
        pleat_cxx::block room(gpu, 0, 160 * MIB, stream);
        std::printf("graphs and pool are gone: room for %zu MiB\n", room.size() / MIB);
        room.reset();
        pleat_cxx::check(pleat_stream_retire(gpu, 0, stream));
        require(cuStreamDestroy_v2(stream));
    } catch (const std::exception &e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
    require(cuDevicePrimaryCtxRelease_v2(0));
    return 0;
}
