// Package vision turns image files into the input of a network: it decodes, converts to gray,
// resizes, augments and normalizes. It is pure Go and does not use tensors; the last step writes
// into a buffer of the caller, so that a loader can fill pinned memory without another copy.
//
//	im, err := vision.Open("plate.png", vision.DecodeOptions{Gray: true})
//	p, err := vision.NewProcessor(vision.ProcessorOptions{
//		Gray: true, Width: 128, Height: 32, Rescale: 1 / 255., Mean: []float64{0.5}, Std: []float64{0.5},
//	})
//	err = p.Process(pixels, im) // pixels is a []float32 of p.Len(im) values, channels first
//
// [ParseProcessorConfig] reads preprocessor_config.json, which says how transformers prepares
// images for a model.
//
// # What "like Pillow" means
//
// Models trained in Python saw their images through Pillow. An image prepared in another way is a
// different image: plain bilinear downscaling is off by up to 14 gray levels. Gray conversion
// ([Image.Gray]), all six resampling filters ([Resize]) and the decoding of PNG, BMP, still WebP,
// TIFF, PPM and PGM agree with Pillow 13 in every bit, as the tests check; the exception is 16-bit
// gray ([FromStd]). Baseline JPEGs have Pillow's pixels in every bit too. Other JPEGs (progressive,
// with restart markers or Adobe's color transform) are decoded by image/jpeg and are within 3
// levels of Pillow's. Animated WebP, and TIFF in CMYK, with gray and alpha, or with JPEG
// compression, are refused ([ErrUnsupported]).
//
// # Images
//
// An [Image] holds packed 8-bit samples, one channel (gray) or three (RGB), with rows without
// padding. Functions that change an image in place take only the image; functions that make one
// write into a dst, whose size decides the size of the result.
//
// A [LabelMap] holds the class of each pixel of an image, for semantic segmentation. [OpenLabelMap]
// reads it from a PNG, and [Processor.ProcessLabels] prepares it like the image.
//
// # Augmentation
//
// [WarpPerspective], [GaussianBlur], [MotionBlur], [AddNoise], [AdjustLight], [Shade],
// [CompressJPEG] and [Degrade] imitate a camera. Functions that draw random numbers take a
// *rand.Rand of math/rand/v2 and nothing else, so a sample is a function of its seed.
//
// Scratch memory comes from a pool; all functions may be called by several goroutines at a time as
// long as they do not write to the same image.
package vision
