// A backend of c10d whose other processes are not there: each collective is answered at once, as if all had what this one has. It is
// PyTorch's backend "fake" with the results that such processes would give; FakeProcessGroup's own works hold None, which the reducer of
// DistributedDataParallel refuses.
#pragma once
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace ct {

using Tensors = std::vector<at::Tensor>;

class Fake : public c10d::Backend {
public:
  Fake(int rank, int world) : Backend(rank, world) {}
  const std::string getBackendName() const override { return "fake"; }

  c10::intrusive_ptr<c10d::Work> broadcast(Tensors &t, const c10d::BroadcastOptions &) override { return done(t); }
  c10::intrusive_ptr<c10d::Work> allreduce(Tensors &t, const c10d::AllreduceOptions &o) override {
    reduce(t, o.reduceOp);
    return done(t);
  }
  c10::intrusive_ptr<c10d::Work> allreduce_coalesced(Tensors &t, const c10d::AllreduceCoalescedOptions &o) override {
    return allreduce(t, o);
  }
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<Tensors> &to, Tensors &from, const c10d::AllgatherOptions &) override {
    for (size_t i = 0; i < from.size(); i++)
      for (auto &t : to[i]) t.copy_(from[i]);
    return done(to[0]);
  }
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor &to, at::Tensor &from, const c10d::AllgatherOptions &) override {
    to.view({getSize(), -1}).copy_(from.reshape({1, -1}).expand({getSize(), -1}));
    return done({to});
  }
  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor &to, at::Tensor &from, std::vector<int64_t> &outputs,
                                               std::vector<int64_t> &inputs, const c10d::AllToAllOptions &) override {
    TORCH_CHECK(inputs == outputs, "a fake group's all to all needs parts of one size");
    auto parts = inputs.empty() ? from.chunk(getSize()) : from.split_with_sizes(inputs);
    to.copy_(at::cat(Tensors(getSize(), parts[getRank()])).view_as(to));
    return done({to});
  }

private:
  void reduce(Tensors &ts, const c10d::ReduceOp &op) {
    for (auto &t : ts) {
      if (op == c10d::ReduceOp::SUM)
        t.mul_(getSize());
      else if (op == c10d::ReduceOp::PRODUCT)
        t.pow_(getSize());
    }
  }
  c10::intrusive_ptr<c10d::Work> done(const Tensors &results) {
    auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    future->markCompleted(c10::IValue(results));
    return c10d::Work::create_from_future(future);
  }
};

} // namespace ct
