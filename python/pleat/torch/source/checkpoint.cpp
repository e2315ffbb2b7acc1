/* checkpoint.cpp - saves and restores which blocks of a private pool are live, for the graph trees
 * of torch.compile. */
#include "allocator.hpp"

namespace pleat_torch
{

namespace
{

struct State final : CA::AllocatorState {
    DeviceIndex device;
    pleat_checkpoint checkpoint;

    State(DeviceIndex on, MempoolId id) : device(on)
    {
        check(pleat_checkpoint_take(instance(), device, pool_id(id), &checkpoint),
              "the private pool cannot be saved");
    }
    ~State() override
    {
        pleat all; /* in a forked child there is none, and a destructor must not throw */
        if (pleat_default(&all) == PLEAT_OK) {
            (void)!pleat_checkpoint_release(all, device, checkpoint);
        }
    }
};

struct Restoring {
    Guarded<CA::CheckpointDelta> delta;
    c10::Device where;
    c10::DeleterFnPtr give;
};

/* PyTorch frees all blocks and makes the checkpoint's blocks anew: a kept block counts as both. */
void see_restored(void *context, pleat_restored what, const pleat_pool_block *block)
{
    auto &restoring = *static_cast<Restoring *>(context);
    void *ptr = reinterpret_cast<void *>(block->base);
    CA::CheckpointDelta &delta = restoring.delta.value;
    restoring.delta.run([&] {
        if (what != PLEAT_RESTORED_MADE) {
            delta.ptrs_freed.push_back(ptr);
        }
        if (what != PLEAT_RESTORED_FREED) {
            delta.dataptrs_allocd.emplace_back(ptr, ptr, restoring.give, restoring.where);
        }
    });
}

/* PyTorch's kMinBlockSize. */
const size_t block_step = 512;

} // namespace

/* Only pleat knows which pool has the address, so each pool is asked. PyTorch asks the pool that
 * serves the stream's requests. */
c10::DataPtr Allocator::allocateWithAddress(size_t bytes, void *ptr)
{
    DeviceIndex device = 0;
    C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
    const auto address = reinterpret_cast<uintptr_t>(ptr);
    cudaStream_t stream = c10::cuda::getCurrentCUDAStream(device).stream();
    TORCH_CHECK(address % block_step == 0, "pleat: ", ptr, " is not aligned to kMinBlockSize");
    if (bytes == 0) {
        return { nullptr, nullptr, &Allocator::give, c10::Device(c10::kCUDA, device) };
    }
    heed_rounding(bytes);
    const Recorder::Scope scope(recorder_, CA::RecordContext::STATE, "mallocWithAddress");
    pleat_status status = PLEAT_EFOREIGN;
    for (const MempoolId id : pools_.of_pleat(device)) {
        status = pleat_pool_alloc_at(instance(), device, pool_id(id), address, bytes, stream);
        if (status != PLEAT_EFOREIGN && status != PLEAT_EPOOL) {
            break;
        }
    }
    TORCH_CHECK(status == PLEAT_OK, "pleat: no ", bytes, " bytes at the exact address ", ptr, ": ",
                status == PLEAT_EFOREIGN ? "no private pool has memory there"
                                         : pleat_last_error()->text);
    return { ptr, ptr, &Allocator::give, c10::Device(c10::kCUDA, device) };
}

bool Allocator::checkPoolLiveAllocations(DeviceIndex device, MempoolId id,
                                         const std::unordered_set<void *> &expected)
{
    std::vector<pleat_devptr> bases;
    for (void *ptr : expected) {
        bases.push_back(reinterpret_cast<uintptr_t>(ptr));
    }
    bool is_same = false;
    check(pleat_pool_compare(instance(), device, pool_id(id), bases.data(), bases.size(), &is_same,
                             nullptr),
          "the blocks of the private pool cannot be listed");
    return is_same;
}

std::shared_ptr<CA::AllocatorState> Allocator::getCheckpointState(DeviceIndex device, MempoolId id)
{
    return std::make_shared<State>(device, id);
}

/* All uses of freed blocks come before later work: PyTorch's graphs of one pool run one after the
 * other. */
CA::CheckpointDelta Allocator::setCheckpointPoolState(DeviceIndex device,
                                                      std::shared_ptr<CA::AllocatorState> state)
{
    const auto saved = std::dynamic_pointer_cast<State>(state);
    TORCH_CHECK(saved && saved->device == device, "pleat: this is no state of a private pool of "
                                                  "device ", static_cast<int>(device));
    Restoring restoring{ {}, c10::Device(c10::kCUDA, device), &Allocator::give };
    check(pleat_checkpoint_restore(instance(), device, saved->checkpoint, PLEAT_RESTORE_SETTLED,
                                   see_restored, &restoring),
          "the private pool cannot be restored");
    return restoring.delta.take();
}

} // namespace pleat_torch
