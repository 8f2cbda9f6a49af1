// Package transforms prepares images for training as torchvision.transforms does: the same
// transforms under the same names, with the same pixels.
//
//	train := transforms.Compose{
//		transforms.RandomResizedCrop{Size: 224},
//		transforms.RandomHorizontalFlip{},
//		transforms.ToTensor{},
//		transforms.Normalize{Mean: transforms.ImageNetMean, Std: transforms.ImageNetStd},
//	}
//	p, err := train.Open("ants/0013035.jpg", transforms.NewGenerator(42))
//	// p.Pixels are the numbers, p.Shape is [3 224 224]
//
// The pixels are those of torchvision 0.26 for Pillow images, bit for bit. The exception is a JPEG
// that is not baseline; its decoded values may be off by 3 levels: see package vision.
//
// [Compose.RunLabeled] changes an image and the classes of its pixels together, for semantic
// segmentation.
//
// # Random numbers
//
// Random transforms take their numbers from a [Generator], in torchvision's order and with
// PyTorch's arithmetic. [NewGenerator] is PyTorch's generator with a seed: with
// transforms.NewGenerator(42), images are cropped, flipped and jittered as in Python after
// torch.manual_seed(42). The *rand.Rand that data.Augment hands out for each sample is a Generator
// too; with it a sample does not depend on the number of workers and the run can be resumed at any
// sample.
package transforms
