package sbert

// Named prefixes the names of an evaluator's metrics with its name and a _, unless it has none.
func Named(evaluator string, metrics map[string]float64) map[string]float64 {
	if evaluator == "" {
		return metrics
	}
	named := map[string]float64{}
	for name, value := range metrics {
		named[evaluator+"_"+name] = value
	}
	return named
}
