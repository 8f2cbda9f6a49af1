package metrics

import "math"

// MAE is the mean absolute error of numbers.
type MAE struct{ errors meanOf }

// Name returns "mae".
func (m *MAE) Name() string { return "mae" }

// Add counts one pair.
func (m *MAE) Add(prediction, reference float64) { m.errors.add(math.Abs(prediction - reference)) }

// Result returns "mae", or 0 if there was nothing to count.
func (m *MAE) Result() map[string]float64 { return map[string]float64{m.Name(): m.errors.value()} }

// Reset forgets all pairs.
func (m *MAE) Reset() { m.errors = meanOf{} }

// State implements [Merger].
func (m *MAE) State() ([]byte, error) { return pack(m.Name(), m.errors) }

// Merge implements [Merger].
func (m *MAE) Merge(state []byte) error { return m.errors.mergeState(state, m.Name()) }

// MSE is the mean squared error of numbers.
type MSE struct{ errors meanOf }

// Name returns "mse".
func (m *MSE) Name() string { return "mse" }

// Add counts one pair.
func (m *MSE) Add(prediction, reference float64) { m.errors.addSquare(prediction - reference) }

// Result returns "mse", or 0 if there was nothing to count.
func (m *MSE) Result() map[string]float64 { return map[string]float64{m.Name(): m.errors.value()} }

// Reset forgets all pairs.
func (m *MSE) Reset() { m.errors = meanOf{} }

// State implements [Merger].
func (m *MSE) State() ([]byte, error) { return pack(m.Name(), m.errors) }

// Merge implements [Merger].
func (m *MSE) Merge(state []byte) error { return m.errors.mergeState(state, m.Name()) }

// RMSE is the square root of the mean squared error of the whole set, which is not the mean of the
// roots of batches.
type RMSE struct{ errors meanOf }

// Name returns "rmse".
func (m *RMSE) Name() string { return "rmse" }

// Add counts one pair.
func (m *RMSE) Add(prediction, reference float64) { m.errors.addSquare(prediction - reference) }

// Result returns "rmse", or 0 if there was nothing to count.
func (m *RMSE) Result() map[string]float64 {
	return map[string]float64{m.Name(): math.Sqrt(m.errors.value())}
}

// Reset forgets all pairs.
func (m *RMSE) Reset() { m.errors = meanOf{} }

// State implements [Merger].
func (m *RMSE) State() ([]byte, error) { return pack(m.Name(), m.errors) }

// Merge implements [Merger].
func (m *RMSE) Merge(state []byte) error { return m.errors.mergeState(state, m.Name()) }

// R2 is the coefficient of determination: 1 minus the squared errors divided by the squared
// deviations of the references from their mean. As in r2_score of scikit-learn, it is NaN for
// fewer than two pairs. If all references are equal, it is 1 if all predictions are correct and 0
// otherwise.
type R2 struct{ state r2State }

type r2State struct {
	Residuals  sum
	References moments
}

// Name returns "r2".
func (m *R2) Name() string { return "r2" }

// Add counts one pair.
func (m *R2) Add(prediction, reference float64) {
	d := prediction - reference
	m.state.Residuals.add(d * d)
	m.state.References.add(reference, 0)
}

// Result returns "r2".
func (m *R2) Result() map[string]float64 {
	residuals, total := m.state.Residuals.value(), m.state.References.XX
	value := 1 - residuals/total
	switch {
	case m.state.References.N < 2:
		value = math.NaN()
	case total == 0 && residuals == 0:
		value = 1
	case total == 0:
		value = 0
	}
	return map[string]float64{m.Name(): value}
}

// Reset forgets all pairs.
func (m *R2) Reset() { m.state = r2State{} }

// State implements [Merger].
func (m *R2) State() ([]byte, error) { return pack(m.Name(), m.state) }

// Merge implements [Merger].
func (m *R2) Merge(state []byte) error {
	var o r2State
	if err := unpack(state, m.Name(), &o); err != nil {
		return err
	}
	m.state.Residuals.merge(o.Residuals)
	m.state.References.merge(o.References)
	return nil
}

// meanOf is a mean of numbers that are added one by one.
type meanOf struct {
	Sum sum
	N   int64
}

func (m *meanOf) add(x float64) {
	m.Sum.add(x)
	m.N++
}

func (m *meanOf) addSquare(x float64) { m.add(x * x) }

func (m *meanOf) value() float64 {
	if m.N == 0 {
		return 0
	}
	return m.Sum.value() / float64(m.N)
}

func (m *meanOf) mergeState(state []byte, kind string) error {
	var o meanOf
	if err := unpack(state, kind, &o); err != nil {
		return err
	}
	m.Sum.merge(o.Sum)
	m.N += o.N
	return nil
}
