package plates_test

import (
	"fmt"
	"log"
	"math/rand/v2"

	"github.com/gotrainer/gotrainer/examples/crnn_plates/plates"
)

// A training set and a held-out set that share no label.
func ExampleDataset() {
	train := plates.Dataset(20000, 1, plates.Options{})
	valid := plates.Dataset(500, 1, plates.Options{Part: plates.HeldOut})
	for _, i := range []int{0, 1} {
		s, err := train.At(i)
		if err != nil {
			log.Fatal(err)
		}
		v, err := valid.At(i)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(s.Image, s.Label, v.Label)
	}
	// Output:
	// 128x32 grey ۶۱ق۷۱۷۶۶ ۹۱ت۸۹۳۴۴
	// 128x32 grey ۷۶الف۸۸۳۵۰ ۳۸ت۴۶۶۱۶
}

// A cleanly printed plate in a bad photograph.
func ExampleRender() {
	rng := rand.New(rand.NewPCG(1, 2))
	plate, err := plates.Render("۱۲الف۳۴۵۶۷", plates.Style{}, rng)
	if err != nil {
		log.Fatal(err)
	}
	photo, err := plates.Photograph(plate, plates.DefaultCamera(), rng)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(plate, photo)
	// Output: 400x88 grey 128x32 grey
}
