// Package datasets implements Hezar's data sets and collators: pictures with texts for OCR, texts
// with classes, words with tags, and texts with summaries.
//
//	image, err := preprocessors.NewImageProcessor(config)
//	set, err := datasets.OpenOCR("plates/train.csv", image, datasets.OCROptions{MaxLength: 8, ReverseDigits: true})
//	fmt.Println(set.Len(), set.Invalid())
//	batch, err := datasets.CollateOCR(samples)
//
// [Load] reads a split of a data set in the form of the Hub: dataset_config.yaml with Parquet files
// or tables.
//
// Results equal those of Hezar's classes: the same rows, IDs, pixels and padding, as recorded runs
// show. Where Hezar has a defect, these data sets do the right thing, unless an option asks for
// Hezar's behaviour; the option describes it.
package datasets
