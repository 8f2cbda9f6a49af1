package crossencoder

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/gotrainer/gotrainer/torch"
)

// Loss is what training minimizes: one of sentence-transformers' losses, or one of your own.
type Loss interface {
	// Wants says which samples and which models the loss takes.
	Wants() Wants
	// Of computes the loss, one number.
	//
	// Logits are in float32, whatever the model computes in: [B, labels of the model] for the
	// documents at each place of the samples. If Wants asks for Lists, it is one tensor, [B, most
	// documents of a sample], with -1e16 where a sample has fewer.
	//
	// Labels are the classes, [B] integers; or Sample.Labels, [B, documents], with -Inf where a
	// sample has fewer documents; or differences, [B, documents-1]. They are undefined if the loss
	// wants none.
	Of(logits []torch.Tensor, labels torch.Tensor) torch.Tensor
}

// Wants says which samples and which models a loss takes.
type Wants struct {
	Documents     int   // the least number of documents; zero: 1
	MoreDocuments bool  // a sample may have more than that; all of a batch have as many
	Lists         bool  // each sample has a list of any length with ScoreLabels; the two above do not count
	MiniBatchSize int   // of Lists: pairs that go through the model at a time; zero: as many as samples; negative: all
	Label         Label // what a sample has besides texts
	OneLabel      bool  // the model must have one label
	// PerSample says that the loss is a mean over samples, each independent of the others. Only
	// then can the trainer split a batch into parts (DivideOnOutOfMemory).
	PerSample bool
}

// Label is what a sample has besides texts.
type Label int

// The kinds of labels.
const (
	NoLabel     Label = iota
	ClassLabel        // Sample.Class
	ScoreLabels       // Sample.Labels, one for each document
	// MarginLabels are Sample.Labels that say by how much the first document is better than each of
	// the others; or the score of each document, which gives these differences.
	MarginLabels
)

// checker is implemented by losses whose settings may be invalid; [NewTask] calls it.
type checker interface{ check() error }

// checkActivation accepts the zero value, which is the default of a loss.
func checkActivation(a Activation) error {
	if a == "" {
		return nil
	}
	return a.check()
}

// BinaryCrossEntropyLoss takes a document and its label, 1 if it goes with the query and 0 if not,
// or a number between. It is the default for models with one label.
type BinaryCrossEntropyLoss struct {
	ActivationFn Activation // of the logits; zero: Identity
	PosWeight    float64    // weight of the label 1: pos_weight; zero: 1
}

func (l BinaryCrossEntropyLoss) check() error {
	if !(l.PosWeight >= 0) || math.IsInf(l.PosWeight, 0) {
		return fmt.Errorf("PosWeight is %g; want a number above 0, or 0 for 1", l.PosWeight)
	}
	return checkActivation(l.ActivationFn)
}

// Wants one document and its label.
func (BinaryCrossEntropyLoss) Wants() Wants {
	return Wants{Label: ScoreLabels, OneLabel: true, PerSample: true}
}

// Of is the mean binary cross-entropy.
func (l BinaryCrossEntropyLoss) Of(logits []torch.Tensor, labels torch.Tensor) torch.Tensor {
	x := l.ActivationFn.of(logits[0].View(-1), Identity)
	var weight torch.Tensor
	if l.PosWeight != 0 {
		weight = torch.TensorOptions{DType: x.DType(), Device: x.Device()}.Full(l.PosWeight)
	}
	return x.BinaryCrossEntropyWithLogits(labels.View(-1), torch.Tensor{}, weight, torch.ReductionMean)
}

// CrossEntropyLoss takes a pair of texts and its class. It is the default for models with several
// labels.
type CrossEntropyLoss struct {
	ActivationFn Activation // of the logits; zero: Identity
}

func (l CrossEntropyLoss) check() error { return checkActivation(l.ActivationFn) }

// Wants one document and the class of the pair.
func (CrossEntropyLoss) Wants() Wants { return Wants{Label: ClassLabel, PerSample: true} }

// Of is the mean cross-entropy.
func (l CrossEntropyLoss) Of(logits []torch.Tensor, classes torch.Tensor) torch.Tensor {
	return crossEntropy(l.ActivationFn.of(logits[0], Identity), classes)
}

func crossEntropy(logits, target torch.Tensor) torch.Tensor {
	return logits.CrossEntropyLoss(target, torch.Tensor{}, torch.ReductionMean, -100, 0)
}

// MSELoss takes a document and the logit that it should get, such as a teacher's.
type MSELoss struct {
	ActivationFn Activation // of the logits; zero: Identity
}

func (l MSELoss) check() error { return checkActivation(l.ActivationFn) }

// Wants one document and its label.
func (MSELoss) Wants() Wants { return Wants{Label: ScoreLabels, OneLabel: true, PerSample: true} }

// Of is the mean squared error.
func (l MSELoss) Of(logits []torch.Tensor, labels torch.Tensor) torch.Tensor {
	return l.ActivationFn.of(logits[0].View(-1), Identity).MSELoss(labels.View(-1), torch.ReductionMean)
}

// MarginMSELoss takes a document that goes with the query and others that do not. The difference of
// the first one's logit and each of the others' should be that of the labels, such as a teacher's.
type MarginMSELoss struct {
	ActivationFn Activation // of the logits; zero: Identity
}

func (l MarginMSELoss) check() error { return checkActivation(l.ActivationFn) }

// Wants two documents or more, and the differences or the scores of all documents.
func (MarginMSELoss) Wants() Wants {
	return Wants{Documents: 2, MoreDocuments: true, Label: MarginLabels, OneLabel: true, PerSample: true}
}

// Of is the mean squared error of the differences.
func (l MarginMSELoss) Of(logits []torch.Tensor, margins torch.Tensor) torch.Tensor {
	columns := make([]torch.Tensor, len(logits))
	for i, x := range logits {
		columns[i] = l.ActivationFn.of(x.View(-1), Identity)
	}
	return columns[0].Unsqueeze(1).Sub(torch.Stack(columns[1:], 1)).MSELoss(margins, torch.ReductionMean)
}

// MultipleNegativesRankingLoss takes a document that goes with the query and, optionally, others
// that do not. The first should score higher than the others and than documents of other samples of
// the batch, which are drawn at random with the generator that dropout uses. If texts occur several
// times, use the order data.NoDuplicates. The zero value has the defaults of sentence-transformers.
type MultipleNegativesRankingLoss struct {
	// NumNegatives is how many documents of other samples a query gets. Each costs a pass of the
	// batch through the model. Zero: 4; negative: all.
	NumNegatives int
	Scale        float64    // factor of the activated logits; zero: 10
	ActivationFn Activation // zero: Sigmoid
}

func (l MultipleNegativesRankingLoss) check() error {
	if !(l.Scale >= 0) || math.IsInf(l.Scale, 0) {
		return fmt.Errorf("want a Scale above 0, or 0 for 10; found %g", l.Scale)
	}
	return checkActivation(l.ActivationFn)
}

// Wants one document or more: a positive, and negatives.
func (MultipleNegativesRankingLoss) Wants() Wants { return Wants{MoreDocuments: true, OneLabel: true} }

// Of is the cross-entropy of the first logits among all.
func (l MultipleNegativesRankingLoss) Of(logits []torch.Tensor, _ torch.Tensor) torch.Tensor {
	rows := logits[0].Size(0)
	columns := make([]torch.Tensor, len(logits))
	for i, x := range logits {
		columns[i] = x.SqueezeDim(1)
	}
	x := torch.Cat(columns, 0).Reshape(-1, rows).Transpose(0, 1)
	x = l.ActivationFn.of(x, Sigmoid).MulScalar(cmp.Or(l.Scale, 10))
	return crossEntropy(x, torch.TensorOptions{DType: torch.Int64, Device: x.Device()}.Zeros(rows))
}

// borrower is a loss that also pairs queries with documents of other samples.
type borrower interface {
	borrow(rows, places int) [][]int64
}

// borrow draws which documents of other samples each query gets. Documents are counted place by
// place: that of sample i at place c is c*rows+i. It returns, for each borrowed document, one
// index for each sample.
func (l MultipleNegativesRankingLoss) borrow(rows, places int) [][]int64 {
	most, all := cmp.Or(l.NumNegatives, 4), rows*places
	others := all - places
	indices := make([]int64, 0, rows*max(0, others))
	if most < 0 || most >= others {
		most = others
		for row := range rows {
			for i := range all {
				if i%rows != row {
					indices = append(indices, int64(i))
				}
			}
		}
	} else {
		weights := make([]float32, rows*all)
		for i := range weights {
			if i%rows != i/all {
				weights[i] = 1
			}
		}
		indices = torch.Values[int64](torch.From(weights, int64(rows), int64(all)).Multinomial(int64(most), false, nil))
	}
	columns := make([][]int64, most)
	for k := range columns {
		for row := range rows {
			columns[k] = append(columns[k], indices[row*most+k])
		}
	}
	return columns
}

// checkLoss returns an error if a loss cannot train a model.
func checkLoss(l Loss, m *CrossEncoder) error {
	if l.Wants().OneLabel && m.NumLabels() != 1 {
		return fmt.Errorf("the model has %d labels; want one", m.NumLabels())
	}
	if l.Wants().Label == ClassLabel && m.NumLabels() < 2 {
		return errors.New("the model has one label, so that there are no classes to tell apart; want two or more " +
			"(auto.Options.ID2Label)")
	}
	if l.Wants().Lists && l.Wants().Label != ScoreLabels {
		return errors.New("its samples are lists, in which labels tell documents from padding; want ScoreLabels")
	}
	if c, ok := l.(checker); ok {
		return c.check()
	}
	return nil
}
