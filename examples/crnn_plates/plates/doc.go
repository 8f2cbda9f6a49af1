// Package plates generates images of Iranian license plates to train a reader on, because
// photographs of real ones are private and few: a seeded renderer draws plates in the real
// lettering and simulates bad photographs of them.
//
//	train := plates.Dataset(20000, 1, plates.Options{})
//	valid := plates.Dataset(500, 1, plates.Options{Part: plates.HeldOut})
//	s, err := train.At(0) // s.Image is 128x32 gray, s.Label reads ۱۲ب۳۴۵۶۷
//
// # Labels
//
// A label is in visual order, from left to right: two digits, the letter, three digits, the two
// digits of the region, in Persian digits. The letter الف is three code points, as in Hezar's data;
// every other letter is one. [Charset] is Hezar's, so a label's classes are its code points.
// Letters and regions are drawn half of the time by how often they occur on 17,146 real plates and
// half of the time evenly, so that rare ones are learned as well.
//
// # Held-out labels
//
// A hash of the label alone decides whether a plate belongs to the training part or to the held-out
// one; each part rejects the labels of the other, and draws from its own stream of random numbers.
// No held-out label is ever a training label, whatever the seeds and sizes.
//
// # From label to image
//
// [Render] draws the plate flat (render.go); [Photograph] sees it from the side, out of focus, in
// bad light, at low resolution and through JPEG compression, framed loosely or too tightly
// (camera.go). Sample i of a set is a pure function of the seed and i.
package plates
