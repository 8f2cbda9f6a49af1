// Just enough of gloo's declarations to compile ProcessGroupGloo.hpp: libtorch holds gloo and exports its symbols, but its packages
// lack the headers. Only pointers to these types cross our code; of no type is a layout or a virtual table used here.
#pragma once
#include <chrono>
#include <string>
#include <vector>

namespace gloo {
class Context {
public:
  void setTimeout(std::chrono::milliseconds);
};
namespace transport {
class Device;
class UnboundBuffer {
public:
  virtual ~UnboundBuffer() = 0;
};
} // namespace transport
namespace rendezvous {
class Store {
public:
  virtual ~Store() = default;
  virtual void set(const std::string &, const std::vector<char> &) = 0;
  virtual std::vector<char> get(const std::string &) = 0;
  virtual void wait(const std::vector<std::string> &) = 0;
  virtual void wait(const std::vector<std::string> &, const std::chrono::milliseconds &) = 0;
};
} // namespace rendezvous
} // namespace gloo
