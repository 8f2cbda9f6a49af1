package data_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/gotrainer/gotrainer/data"
)

// A tokenized data set: select, filter and split as in Hugging Face's datasets, then batches padded
// to their longest sequence.
func Example() {
	ctx := context.Background()
	type sample struct {
		InputIDs []int64
		Label    int64
	}
	type batch struct {
		InputIDs data.Padded[int64]
		Mask     data.Padded[int64] `mask:"InputIDs"`
		Label    []int64
	}
	texts := data.Slice[string]{"a b c", "d e", "", "f", "g h i j", "k l"}
	kept, err := data.Filter(ctx, texts, func(s string) (bool, error) { return s != "", nil })
	if err != nil {
		fmt.Println(err)
		return
	}
	train, test, err := data.TrainTestSplit(kept, 0.2, 42)
	if err != nil {
		fmt.Println(err)
		return
	}
	encoded := data.Map(train, func(s string) (sample, error) {
		var ids []int64
		for _, word := range strings.Fields(s) {
			ids = append(ids, int64(word[0]-'a'+1))
		}
		return sample{InputIDs: ids, Label: int64(len(ids) % 2)}, nil
	})
	collate, err := data.Collator[sample, batch](data.Padding{})
	if err != nil {
		fmt.Println(err)
		return
	}
	loader, err := data.NewLoader(encoded, collate, data.LoaderOptions{BatchSize: 2, Order: data.Sequential{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("test:", test.Len(), "train:", train.Len())
	for b, err := range loader.Epoch(ctx, 0, 0) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(b.InputIDs.Shape(), b.InputIDs.Values, b.Mask.Values, b.Label)
	}
	// Output:
	// test: 1 train: 4
	// [2 4] [6 0 0 0 7 8 9 10] [1 0 0 0 1 1 1 1] [1 0]
	// [2 3] [4 5 0 1 2 3] [1 1 0 1 1 1] [0 1]
}

func ExamplePad() {
	p, err := data.Pad([][]int64{{101, 7, 102}, {101, 102}}, -100, data.Padding{Multiple: 4})
	fmt.Println(p.Shape(), p.Values, err)
	fmt.Println(p.Mask().Values)
	// Output:
	// [2 4] [101 7 102 -100 101 102 -100 -100] <nil>
	// [1 1 1 0 1 1 0 0]
}

func ExampleShuffleStream() {
	stream, err := data.ShuffleStream(data.StreamOf(numbers(9), nil), 4, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	whole, rest := []int{}, []int{}
	for i := range stream.Samples(0, 0) {
		whole = append(whole, i)
	}
	for i := range stream.Samples(0, 6) { // a run that is resumed after six samples
		rest = append(rest, i)
	}
	fmt.Println(len(whole), fmt.Sprint(whole[6:]) == fmt.Sprint(rest))
	// Output: 9 true
}
