/* fake_c10.cpp - the exceptions of PyTorch as used by libpleat_torch.so: the names and the shape of
 * c10/util/Exception.h, in a library called libc10.so. Live exceptions are counted. */
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#define FAKE_API __attribute__((visibility("default")))

extern "C" {
FAKE_API int fake_c10_n_errors;            /* live exceptions */
FAKE_API std::uint32_t fake_c10_last_line; /* the source line given by the last exception */
}

namespace c10
{

struct FAKE_API SourceLocation {
    const char *function;
    const char *file;
    std::uint32_t line;
};

class FAKE_API Error : public std::exception
{
  public:
    Error(SourceLocation where, std::string text);
    ~Error() override;
    const char *what() const noexcept override;

  private:
    std::string text_;
    std::vector<std::string> context_;
};

class FAKE_API OutOfMemoryError : public Error
{
    using Error::Error;
};

Error::Error(SourceLocation where, std::string text) : text_(std::move(text)), context_(3, "frame")
{
    fake_c10_n_errors++;
    fake_c10_last_line = where.line;
}

Error::~Error()
{
    fake_c10_n_errors--;
}

const char *Error::what() const noexcept
{
    return text_.c_str();
}

} // namespace c10

/* Brings the class's vtable into the library, as PyTorch's own throws do. */
FAKE_API void fake_c10_throw()
{
    throw c10::OutOfMemoryError({ "", "", 0 }, "");
}
