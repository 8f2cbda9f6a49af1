// Package amp provides automatic mixed precision: forward passes in bfloat16 or float16 with
// weights in float32, as in torch.amp.
//
//	amp.Autocast(device, amp.BF16, func() {
//		loss = functional.CrossEntropy(model.Forward(x), y)
//	})
//	loss.Backward() // outside: backward operators run in the dtypes of their forward ones
//
// # Which precision
//
// [BF16] has the range of float32 and needs nothing else. [FP16] has more digits but a small range:
// gradients vanish in it unless the loss is scaled up before the backward pass. [GradScaler] does
// that:
//
//	scaler := amp.NewGradScaler(amp.GradScalerOptions{})
//	for ... {
//		amp.Autocast(device, amp.FP16, func() { loss = ... })
//		scaler.Scale(loss).Backward()
//		err = scaler.Unscale_(opt)             // only to look at gradients, or to clip them
//		applied, err := scaler.Step(opt, rate) // not applied where gradients overflowed
//		err = scaler.Update()
//		opt.ZeroGrad()
//	}
//
// # Which operators
//
// Matrix products, convolutions and attention run in the low precision; losses, norms and softmax
// run in float32; everything else runs in the dtype of its arguments. The lists are libtorch's:
// https://docs.pytorch.org/docs/stable/amp.html#autocast-op-reference.
package amp
