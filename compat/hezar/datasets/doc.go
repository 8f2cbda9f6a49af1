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
// What Hezar's classes give, these give: the same rows, ids, pixels and padding, as recorded runs
// of them prove. Where Hezar's behaviour is a defect, the right thing is done unless an option asks
// for Hezar's, and the option says which.
package datasets
