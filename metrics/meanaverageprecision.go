package metrics

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

// Box is an object in an image: one that a model found, or one that is there.
type Box struct {
	Class int
	// X and Y are the top left corner, in pixels, as in COCO's files.
	X, Y, Width, Height float64
	Score               float64 // of a prediction; not used in a reference
	Area                float64 // of a reference, in square pixels; zero: Width times Height
	// Crowd marks a reference that stands for several objects (iscrowd): predictions within it count
	// neither as right nor as wrong.
	Crowd bool
}

// MeanAveragePrecision is COCO's evaluation of boxes. Add takes the boxes found in one image, in
// any order, and those that are there. The results equal those of pycocotools' COCOeval under the
// names of torchmetrics' MeanAveragePrecision:
//
//   - map: the precision averaged over recalls, over the classes, and over overlaps (intersection
//     over union) of 0.5 to 0.95; map_50 and map_75 are for one overlap;
//   - map_small, map_medium, map_large: only objects of less than 32², of up to 96², and of more
//     square pixels;
//   - mar_1, mar_10, mar_100: the recall with at most so many predictions for each class in an
//     image, averaged over classes and overlaps; mar_small, mar_medium and mar_large have at most
//     100.
//
// A result is -1 if there is no object to average over. The memory grows with the number of boxes.
type MeanAveragePrecision struct {
	// PerClass adds map_CLASS and mar_100_CLASS of each class that was predicted or is there.
	PerClass bool
	// Classes are the names for PerClass; a class without one has its number.
	Classes []string

	images []imageBoxes
}

var (
	_ Metric[[]Box] = (*MeanAveragePrecision)(nil)
	_ Merger        = (*MeanAveragePrecision)(nil)
)

// imageBoxes are the boxes of one image.
type imageBoxes struct{ Found, There []Box }

// Name returns "map".
func (m *MeanAveragePrecision) Name() string { return "map" }

// Add records one image. The slices may be changed afterwards.
func (m *MeanAveragePrecision) Add(prediction, reference []Box) {
	m.images = append(m.images, imageBoxes{slices.Clone(prediction), slices.Clone(reference)})
}

// Reset starts over.
func (m *MeanAveragePrecision) Reset() { m.images = nil }

const averagePrecisionKind = "mean average precision"

// State implements [Merger]. The order of the images, and so that of the states, decides between
// predictions with equal scores.
func (m *MeanAveragePrecision) State() ([]byte, error) { return pack(averagePrecisionKind, m.images) }

// Merge implements [Merger].
func (m *MeanAveragePrecision) Merge(state []byte) error {
	var images []imageBoxes
	if err := unpack(state, averagePrecisionKind, &images); err != nil {
		return err
	}
	m.images = append(m.images, images...)
	return nil
}

const numOverlaps = 10

// The settings of COCO's evaluation.
var (
	overlaps  = evenly(0.5, 0.95, numOverlaps)
	recalls   = evenly(0, 1, 101)
	most      = [...]int{1, 10, 100} // predictions for a class in an image
	areas     = [...][2]float64{{0, 1e5 * 1e5}, {0, 32 * 32}, {32 * 32, 96 * 96}, {96 * 96, 1e5 * 1e5}}
	areaNames = [...]string{"", "_small", "_medium", "_large"}
)

// evenly returns n numbers from first to last: numpy.linspace.
func evenly(first, last float64, n int) []float64 {
	list := make([]float64, n)
	step := (last - first) / float64(n-1)
	for i := range list {
		list[i] = float64(float64(i)*step) + first
	}
	list[n-1] = last
	return list
}

// Result implements [Metric].
func (m *MeanAveragePrecision) Result() map[string]float64 {
	var sums classScores
	r := map[string]float64{}
	for _, class := range m.classes() {
		scores := m.score(class)
		sums.add(scores)
		if m.PerClass {
			name := strconv.Itoa(class)
			if class >= 0 && class < len(m.Classes) {
				name = m.Classes[class]
			}
			r["map_"+name] = average(scores.precision[0])
			r["mar_100_"+name] = average(scores.recall[0][len(most)-1])
		}
	}
	for a, name := range areaNames {
		r["map"+name] = average(sums.precision[a])
	}
	each := len(recalls)
	r["map_50"] = average(sums.at(0, each))
	r["map_75"] = average(sums.at(5, each))
	for i, n := range most {
		r["mar_"+strconv.Itoa(n)] = average(sums.recall[0][i])
	}
	for a := 1; a < len(areas); a++ {
		r["mar"+areaNames[a]] = average(sums.recall[a][len(most)-1])
	}
	return r
}

// classes returns the classes of all boxes, sorted.
func (m *MeanAveragePrecision) classes() (classes []int) {
	for _, im := range m.images {
		for _, b := range slices.Concat(im.Found, im.There) {
			classes = append(classes, b.Class)
		}
	}
	slices.Sort(classes)
	return slices.Compact(classes)
}

// classScores are the numbers of one class, or of several one after another: for each range of
// areas the precisions, by overlap and recall, and by the number of predictions the recalls, by
// overlap. Where a class has no objects there are none.
type classScores struct {
	precision [len(areas)][]float64
	recall    [len(areas)][len(most)][]float64
}

func (s *classScores) add(o classScores) {
	for a := range areas {
		s.precision[a] = append(s.precision[a], o.precision[a]...)
		for i := range most {
			s.recall[a][i] = append(s.recall[a][i], o.recall[a][i]...)
		}
	}
}

// at returns the precisions of all classes for one overlap.
func (s *classScores) at(overlap, each int) (list []float64) {
	for i := 0; i < len(s.precision[0]); i += each * len(overlaps) {
		list = append(list, s.precision[0][i+overlap*each:][:each]...)
	}
	return list
}

// average is -1 if there are no numbers.
func average(numbers []float64) float64 {
	if len(numbers) == 0 {
		return -1
	}
	sum := 0.0
	for _, n := range numbers {
		sum += n
	}
	return sum / float64(len(numbers))
}

// score evaluates one class.
func (m *MeanAveragePrecision) score(class int) (s classScores) {
	only := func(boxes []Box) []Box {
		return slices.DeleteFunc(slices.Clone(boxes), func(b Box) bool { return b.Class != class })
	}
	images := make([]*classImage, 0, len(m.images))
	for _, im := range m.images {
		if c := newClassImage(only(im.Found), only(im.There)); c != nil {
			images = append(images, c)
		}
	}
	for a, area := range areas {
		there := 0
		var found []judgedBox
		for _, im := range images {
			boxes, n := im.judge(area)
			found, there = append(found, boxes...), there+n
		}
		if there == 0 {
			continue
		}
		for i, n := range most {
			kept := slices.DeleteFunc(slices.Clone(found), func(b judgedBox) bool { return b.place >= n })
			slices.SortStableFunc(kept, func(a, b judgedBox) int { return cmp.Compare(b.score, a.score) })
			for o := range overlaps {
				precision, recall := curve(kept, o, there)
				s.recall[a][i] = append(s.recall[a][i], recall)
				if i == len(most)-1 {
					s.precision[a] = append(s.precision[a], precision...)
				}
			}
		}
	}
	return s
}

// classImage holds the boxes of one class in an image.
type classImage struct {
	found, there []Box
	overlap      [][]float64 // of each box that was found with each that is there
}

// newClassImage returns nil if there are no boxes.
func newClassImage(found, there []Box) *classImage {
	if len(found)+len(there) == 0 {
		return nil
	}
	slices.SortStableFunc(found, func(a, b Box) int { return cmp.Compare(b.Score, a.Score) })
	c := &classImage{found: found[:min(len(found), most[len(most)-1])], there: there}
	for _, f := range c.found {
		row := make([]float64, len(there))
		for i, t := range there {
			row[i] = overlapOf(f, t)
		}
		c.overlap = append(c.overlap, row)
	}
	return c
}

// overlapOf is the intersection of two boxes over their union, or over the first if the second is a
// crowd.
func overlapOf(found, there Box) float64 {
	w := math.Min(found.Width+found.X, there.Width+there.X) - math.Max(found.X, there.X)
	h := math.Min(found.Height+found.Y, there.Height+there.Y) - math.Max(found.Y, there.Y)
	if !(w > 0) || !(h > 0) {
		return 0
	}
	// Conversions forbid fused multiply-adds.
	own, other, both := float64(found.Width*found.Height), float64(there.Width*there.Height), float64(w*h)
	if there.Crowd {
		return both / own
	}
	return both / (own + other - both)
}

// judgedBox is a box that was found: whether it is right, and whether it counts at all, by overlap.
type judgedBox struct {
	score          float64
	place          int // among those of its class in its image, by score
	right, ignored [numOverlaps]bool
}

// outside reports whether a size in square pixels is not in a range.
func outside(size float64, area [2]float64) bool { return size < area[0] || size > area[1] }

// judge matches boxes for objects of some areas, and returns the number of objects to be found.
func (c *classImage) judge(area [2]float64) (found []judgedBox, objects int) {
	order, ignored, objects := c.order(area)
	found = make([]judgedBox, len(c.found))
	for i, b := range c.found {
		found[i] = judgedBox{score: b.Score, place: i}
	}
	for o, least := range overlaps {
		taken := make([]bool, len(c.there))
		for i, b := range c.found {
			match := c.match(i, least, order, ignored, taken)
			if match < 0 {
				found[i].ignored[o] = outside(b.Width*b.Height, area)
				continue
			}
			taken[match] = true
			found[i].right[o], found[i].ignored[o] = !ignored[match], ignored[match]
		}
	}
	return found, objects
}

// order returns the objects in the order in which they are looked at: those of the areas, which are
// to be found, and then the others, which are ignored.
func (c *classImage) order(area [2]float64) (order []int, ignored []bool, objects int) {
	ignored = make([]bool, len(c.there))
	for i, b := range c.there {
		size := b.Area
		if size == 0 {
			size = b.Width * b.Height
		}
		if ignored[i] = b.Crowd || outside(size, area); !ignored[i] {
			order = append(order, i)
		}
	}
	objects = len(order)
	for i := range c.there {
		if ignored[i] {
			order = append(order, i)
		}
	}
	return order, ignored, objects
}

// match returns the object that a box overlaps most with, and at least as much as given. Objects
// that are taken are left out, except for crowds; ignored ones come only if there is no other. -1:
// none.
func (c *classImage) match(box int, least float64, order []int, ignored, taken []bool) int {
	best, match := min(least, 1-1e-10), -1
	for _, t := range order {
		if taken[t] && !c.there[t].Crowd {
			continue
		}
		if match >= 0 && !ignored[match] && ignored[t] {
			break
		}
		if c.overlap[box][t] >= best {
			best, match = c.overlap[box][t], t
		}
	}
	return match
}

// curve returns the precision at each of recalls, and the highest recall, of boxes sorted by score.
func curve(found []judgedBox, overlap, objects int) (precision []float64, recall float64) {
	var right, wrong float64
	var reached, precisions []float64
	for _, b := range found {
		if !b.ignored[overlap] {
			if b.right[overlap] {
				right++
			} else {
				wrong++
			}
		}
		recall = right / float64(objects)
		reached = append(reached, recall)
		precisions = append(precisions, right/(wrong+right+0x1p-52)) // numpy.spacing(1): 0/0 is 0
	}
	for i := len(precisions) - 1; i > 0; i-- {
		precisions[i-1] = max(precisions[i-1], precisions[i])
	}
	precision = make([]float64, len(recalls))
	for i, r := range recalls {
		if at, _ := slices.BinarySearch(reached, r); at < len(precisions) {
			precision[i] = precisions[at]
		}
	}
	return precision, recall
}
