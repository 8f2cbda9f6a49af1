// Package digits is a small data set to start with, embedded in the program: 1,797 handwritten
// digits, each an image of 8 x 8 gray values. It is what load_digits of scikit-learn returns, with
// the values divided by 16.
//
//	engine.Main(engine.Classifier(net), digits.Train(), digits.Test(), engine.Options{}, trainer.Options{})
//
// The digits are the test set of E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten
// Digits, UCI Machine Learning Repository, 1998, https://doi.org/10.24432/C50P49 (CC BY 4.0). The
// file digits.csv.gz is that of scikit-learn 1.9.1, unchanged.
package digits

import (
	"bytes"
	"compress/gzip"
	_ "embed" // for the digits
	"encoding/csv"
	"fmt"
	"strconv"
	"sync"

	"github.com/gotrainer/gotrainer/data"
)

// Width and Height are the size of an image in pixels. Classes is the number of classes, the digits
// 0 to 9.
const (
	Width   = 8
	Height  = 8
	Classes = 10
)

const (
	all  = 1797
	test = 360 // a fifth, rounded up
	seed = 42
)

// Train returns 1,437 digits for training. Features are the pixels, row by row from the top left, 0
// for white to 1 for black.
//
// Train and Test are train_test_split(test_size=0.2, seed=42) of Hugging Face's datasets. The split
// is random, so each of the 13 people who wrote the digits appears in both parts; a split by writer
// would be harder.
func Train() data.Dataset[data.Example] { return data.Skip(shuffled(), test) }

// Test returns the 360 other digits.
func Test() data.Dataset[data.Example] { return data.Take(shuffled(), test) }

func shuffled() data.Dataset[data.Example] {
	return data.Shuffle(data.Func(all, func(i int) (data.Example, error) {
		list, err := examples()
		if err != nil {
			return data.Example{}, err
		}
		return list[i], nil
	}), seed)
}

//go:embed digits.csv.gz
var file []byte

// examples returns the digits in the order of the file, which it reads once.
var examples = sync.OnceValues(func() ([]data.Example, error) {
	z, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, fmt.Errorf("digits.csv.gz: %w", err)
	}
	r := csv.NewReader(z)
	r.FieldsPerRecord = Width*Height + 1 // the pixels and the class
	rows, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("digits.csv.gz: %w", err)
	}
	list := make([]data.Example, len(rows))
	for i, row := range rows {
		numbers := make([]float32, len(row))
		for j, text := range row {
			n, err := strconv.ParseUint(text, 10, 5)
			if err != nil {
				return nil, fmt.Errorf("digits.csv.gz: row %d: %w", i+1, err)
			}
			numbers[j] = float32(n)
		}
		pixels := numbers[: Width*Height : Width*Height]
		list[i].Class = int64(numbers[Width*Height])
		for j := range pixels {
			pixels[j] /= 16
		}
		list[i].Features = pixels
	}
	return list, nil
})
