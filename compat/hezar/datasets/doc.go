// Package datasets holds Hezar's data sets and collators: pictures with texts for OCR, texts with
// classes, words with tags, and texts with summaries.
//
//	image, err := preprocessors.NewImageProcessor(config)
//	set, err := datasets.OpenOCR("plates/train.csv", image, datasets.OCROptions{MaxLength: 8, ReverseDigits: true})
//	fmt.Println(set.Len(), set.Invalid())
//	batch, err := datasets.CollateOCR(samples)
//
// [Load] reads a split of a data set as the Hub holds it: dataset_config.yaml, and Parquet files or
// tables.
//
// They give what Hezar's classes give: the same rows, ids, pixels and padding, as recorded runs
// show. Where Hezar has a defect, the data sets here do the right thing, unless an option asks for
// Hezar's behaviour; the option describes it.
package datasets
