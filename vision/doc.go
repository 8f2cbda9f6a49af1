// Package vision turns picture files into the numbers a network reads: decode, convert to grey,
// resize, augment, normalise. It is pure Go and knows no tensors; the last step writes into a
// buffer that the caller lends, so a loader can fill pinned memory without a copy in between.
//
//	im, err := vision.Open("plate.png", vision.DecodeOptions{Gray: true})
//	p, err := vision.NewProcessor(vision.ProcessorOptions{
//		Gray: true, Width: 128, Height: 32, Rescale: 1 / 255., Mean: []float64{0.5}, Std: []float64{0.5},
//	})
//	err = p.Process(pixels, im) // pixels is a []float32 of p.Len(im) values, channels first
//
// # What "like Pillow" means
//
// Models trained in Python saw their pictures through Pillow. A picture prepared in another way is
// a different picture: plain bilinear downscaling is off by up to 14 grey levels. Grey conversion
// ([Image.Gray]), all six resampling filters ([Resize]) and the decoding of PNG, BMP, still WebP,
// TIFF, PPM and PGM agree with Pillow 13 in every bit, as the tests check; the exception is 16-bit
// grey ([FromStd]). Baseline JPEGs have Pillow's pixels in every bit too. Other JPEGs (progressive,
// with restart markers or Adobe's colours) are decoded by image/jpeg and are within 3 levels of
// Pillow's. Animated WebP, and TIFF in CMYK, with grey and alpha, or compressed as JPEG, are
// refused ([ErrUnsupported]).
//
// # Pictures
//
// An [Image] holds packed 8-bit samples, one channel (grey) or three (RGB), rows without padding.
// Functions that change a picture in place take only the picture; functions that make one write
// into a dst, whose size decides the size of the result.
//
// # Augmentation
//
// [WarpPerspective], [GaussianBlur], [MotionBlur], [AddNoise], [AdjustLight], [Shade],
// [CompressJPEG] and [Degrade] imitate a camera. Functions that draw random numbers take a
// *rand.Rand of math/rand/v2 and nothing else, so a sample is a function of its seed.
//
// Scratch memory comes from a pool; all functions may be called by several goroutines at a time as
// long as they do not write to the same picture.
package vision
