package modeltest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/maskedlm"
	"github.com/gotrainer/gotrainer/models/question"
	"github.com/gotrainer/gotrainer/models/segment"
	"github.com/gotrainer/gotrainer/models/tokenclass"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// EncoderFile is the output of encoder.py for a family of encoders with heads. Tensors are
// represented by the first bytes of their SHA-256, in the order of the parameters.
type EncoderFile struct {
	Models []*Encoder
	Values *golden.File
}

// Encoder is an encoder with a head. Some have no record of what from_pretrained of the encoder
// alone draws (Fine), or of a run of Trainer (Final and Losses).
type Encoder struct {
	Name, Architecture, Head string
	Typed                    bool    // texts have token types
	Size                     []int64 // of images: channels, height and width; nil: those of the model
	Config                   map[string]any
	Parameters, Saved        []string
	Initial, Fine, Final     []string
	FinalBuffers             []string `json:"final_buffers"` // after the run; nil: not recorded
	Generator                string   // after the model was made
	FineGenerator            string   `json:"fine_generator"`
	FinalGenerator           string   `json:"final_generator"`
	Cases                    []EncoderCase
	Losses                   []string
	GradNorms                []string `json:"grad_norms"`
}

// EncoderCase is one forward and backward pass in training mode, and one forward pass in evaluation
// mode.
type EncoderCase struct {
	Name                string
	Attention           transformer.Attention
	DType               string // of the weights
	BF16, Checkpointing bool
	Length              int // number of tokens of each text; 0 means that each has its own
	Generator           string
	Logits, Eval        string
	Grads               []string // empty where a parameter has none
	Buffers             []string // after the pass in training mode; nil: not recorded
	Norms               []float64
}

// LoadEncoders reads testdata/NAME.json and NAME.safetensors.
func LoadEncoders(t *testing.T, name string) EncoderFile {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	text, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	require.NoError(t, err)
	var f EncoderFile
	require.NoError(t, json.Unmarshal(text, &f))
	require.NotEmpty(t, f.Models)
	f.Values = golden.Load(t, filepath.Join("testdata", name+".safetensors"))
	return f
}

// RunEncoders compares everything that was recorded, and checks that a model can be saved and
// loaded.
func RunEncoders(t *testing.T, name string) {
	t.Helper()
	f := LoadEncoders(t, name)
	for _, e := range f.Models {
		t.Run(e.Name, func(t *testing.T) {
			t.Run("initial weights", e.sameInitial)
			for _, c := range e.Cases {
				t.Run(c.Name, func(t *testing.T) {
					goldencount.Start(t, "models", e.Name+", "+c.Name)
					torch.Scope(func() { e.pass(t, c, f.Values) })
				})
			}
			t.Run("saved and loaded", e.saveAndLoad)
			if len(e.Fine) > 0 {
				t.Run("a head on a saved encoder", e.newHead)
			}
			if len(e.Losses) > 0 {
				t.Run("twenty updates", func(t *testing.T) {
					goldencount.Start(t, "models", e.Name+", run")
					e.run(t, f.Values)
				})
			}
		})
	}
}

// Load loads the model in a folder for its task.
func (e *Encoder) Load(dir string, o auto.Options) (*auto.Model, error) {
	o.Warnings = io.Discard
	ctx := context.Background()
	switch e.Head {
	case "SequenceClassification":
		m, err := auto.SequenceClassification(ctx, dir, o)
		return modelOf(err, func() *auto.Model { return m.Model })
	case "TokenClassification":
		m, err := auto.TokenClassification(ctx, dir, o)
		return modelOf(err, func() *auto.Model { return m.Model })
	case "MultipleChoice":
		m, err := auto.MultipleChoice(ctx, dir, o)
		return modelOf(err, func() *auto.Model { return m.Model })
	case "QuestionAnswering":
		m, err := auto.QuestionAnswering(ctx, dir, o)
		return modelOf(err, func() *auto.Model { return m.Model })
	case imageClassification:
		m, err := auto.ImageClassification(ctx, dir, o)
		return modelOf(err, func() *auto.Model { return m.Model })
	case semanticSegmentation:
		m, err := auto.SemanticSegmentation(ctx, dir, o)
		return modelOf(err, func() *auto.Model { return m.Model })
	}
	m, err := auto.MaskedLM(ctx, dir, o)
	return modelOf(err, func() *auto.Model { return m.Model })
}

func modelOf(err error, model func() *auto.Model) (*auto.Model, error) {
	if err != nil {
		return nil, err
	}
	return model(), nil
}

// Fresh makes the model with the seed 42.
func (e *Encoder) Fresh(t *testing.T, o auto.Options) *auto.Model {
	t.Helper()
	o.FromConfig = true
	torch.ManualSeed(42)
	m, err := e.Load(ConfigFolder(t, e.Config), o)
	require.NoError(t, err)
	return m
}

// same compares tensors bit for bit, on machines that compute the same numbers.
func same(t *testing.T, m any, what string, want []string, of func(t torch.Tensor) torch.Tensor) {
	t.Helper()
	params := nn.Params(m)
	require.Len(t, params, len(want))
	for i, p := range params {
		if testenv.SameBits() && want[i] != "" {
			assert.Equal(t, want[i], Sum(of(p.Tensor).Bytes())[:8], "%s of %s", what, p.Name)
		}
	}
}

func identity(t torch.Tensor) torch.Tensor { return t }

// sameBuffers compares buffers, such as running statistics, bit for bit on machines that compute
// the same numbers.
func sameBuffers(t *testing.T, m any, want []string) {
	t.Helper()
	if want == nil || !testenv.SameBits() {
		return
	}
	buffers := nn.Buffers(m)
	require.Len(t, buffers, len(want))
	for i, b := range buffers {
		assert.Equal(t, want[i], Sum(b.Tensor.Bytes())[:8], b.Name)
	}
}

// sameGenerator compares the state of the generator.
func sameGenerator(t *testing.T, want string) {
	t.Helper()
	if testenv.SameBits() {
		assert.Equal(t, want, Generator()[:8], "the generator has another state")
	}
}

func (e *Encoder) sameInitial(t *testing.T) {
	m := e.Fresh(t, auto.Options{})
	require.Equal(t, e.Architecture, m.Architecture())
	sameGenerator(t, e.Generator)
	require.Equal(t, e.Parameters, names(nn.Params(m)))
	same(t, m, "initial weight", e.Initial, identity)
}

// pass compares a pass: logits and loss, each gradient, and the state of the generator.
func (e *Encoder) pass(t *testing.T, c EncoderCase, file *golden.File) {
	o, precision, computed := auto.Options{Attention: c.Attention}, amp.FP32, torch.Float32
	if c.BF16 {
		precision, computed = amp.BF16, torch.BFloat16
	}
	if c.DType == "bfloat16" {
		o.DType, computed = torch.BFloat16, torch.BFloat16
	}
	m := e.Fresh(t, o)
	m.SetGradientCheckpointing(c.Checkpointing)
	forward := e.forwardImages(t, m, file, c.Length)
	if !e.ofPictures() {
		forward = e.forward(t, m, EncoderRows(file, e.Typed)[:4], c.Length)
	}
	key := e.Name + ", " + c.Name
	compare := func(what string, logits torch.Tensor, bits string) {
		want := file.Tensor(key + "." + what)
		logits = logits.Detach().ToDType(want.DType()) // ModernBERT's may be wider than transformers'
		golden.RecordedIn(t, what, logits.Narrow(-1, 0, min(5, logits.Size(-1))).Contiguous(), want, computed)
		if testenv.SameBits() {
			assert.Equal(t, bits, Sum(logits.Contiguous().Bytes())[:8], what)
		}
	}
	torch.ManualSeed(7)
	var logits, loss torch.Tensor
	amp.Autocast(torch.CPU, precision, func() { logits, loss = forward() })
	loss.Backward()
	sameBuffers(t, m, c.Buffers)
	sameGenerator(t, c.Generator)
	compare("logits", logits, c.Logits)
	golden.RecordedIn(t, "loss", loss.Detach(), file.Tensor(key+".loss"), computed)
	tolerance := map[torch.DType]float64{torch.Float32: 1e-3, torch.BFloat16: 5e-2}[computed]
	if c.Buffers != nil {
		tolerance = max(tolerance, Normalizing)
	}
	for i, p := range nn.Params(m) {
		require.Equal(t, c.Grads[i] != "", p.Tensor.Grad().Defined(), "whether %s has a gradient", p.Name)
		if c.Grads[i] == "" {
			continue
		}
		norm := p.Tensor.Grad().ToDType(torch.Float64).Norm(2).Item()
		sameNorm(t, p.Name, norm, c.Norms[i], c.Norms[max(0, i-1)], tolerance)
	}
	same(t, m, "gradient", c.Grads, torch.Tensor.Grad)
	nn.SetTraining(m, false)
	torch.NoGrad(func() {
		amp.Autocast(torch.CPU, precision, func() { logits, _ = forward() })
		compare("eval", logits, c.Eval)
	})
}

// forward returns a function that computes the logits and the loss of some texts.
func (e *Encoder) forward(t *testing.T, m *auto.Model, rows []EncoderRow, length int) func() (l, loss torch.Tensor) {
	t.Helper()
	if length > 0 {
		rows = slices.Clone(rows)
		for i := range rows {
			rows[i] = rows[i].resized(length)
		}
	}
	switch e.Head {
	case "SequenceClassification":
		task := must(classify.NewTask(m, classify.TaskOptions{}))
		b := must(task.Collate(RowsAs(rows, EncoderRow.Sequence)))
		return func() (l, loss torch.Tensor) {
			l = m.Forward(b.Tensors())
			return l, m.Head().Loss(l, torch.From(b.Labels, int64(len(rows))))
		}
	case "MultipleChoice":
		task := must(classify.NewChoiceTask(m, classify.ChoiceTaskOptions{}))
		b := must(task.Collate(RowsAs(rows, EncoderRow.Choice)))
		return func() (l, loss torch.Tensor) {
			o := task.Predict(engine.ForwardPass{}, b)
			return o.Logits[0], task.LossOf(engine.ForwardPass{}, o).Value
		}
	case "QuestionAnswering":
		task := must(question.NewTask(m, question.TaskOptions{}))
		b := must(task.Collate(RowsAs(rows, EncoderRow.Question)))
		return func() (l, loss torch.Tensor) {
			o := task.Predict(engine.ForwardPass{}, b)
			return torch.Stack([]torch.Tensor{o.Logits[0], o.Logits[1]}, -1), task.LossOf(engine.ForwardPass{}, o).Value
		}
	}
	b := must(m.Limits().Collate("test", RowsAs(rows, func(r EncoderRow) inputs.Text { return r.Text }), data.Padding{}))
	labels := b.Filled(inputs.IgnoreIndex)
	for i, r := range rows {
		copy(labels.Row(i), map[bool][]int64{true: r.Words, false: r.Tokens}[e.Head == "MaskedLM"])
	}
	return func() (l, loss torch.Tensor) {
		l = m.Forward(b.Tensors())
		return l, inputs.TokenLoss(l, inputs.Matrix(engine.ForwardPass{}, labels))
	}
}

// forwardImages returns a function that computes the logits and the loss of some images, whose
// sides have the given length unless it is 0. It returns nil for a model of texts.
func (e *Encoder) forwardImages(t *testing.T, m *auto.Model, file *golden.File, length int) func() (l,
	loss torch.Tensor) {
	t.Helper()
	if !e.ofPictures() {
		return nil
	}
	c := &auto.ImageClassifier{Model: m}
	size := e.imageSize(c)
	if length > 0 {
		if !size.AnySize {
			require.NoError(t, c.InterpolatePosEncoding(true))
		}
		size.Height, size.Width = int64(length), int64(length)
	}
	if e.Head == semanticSegmentation {
		task := (&auto.SemanticSegmenter{Model: m}).Task()
		return logitsAndLoss(task, must(task.Collate(EncoderMaps(file, size, m.Head().NumLabels)[:4])))
	}
	task := c.Task()
	return logitsAndLoss(task, must(task.Collate(EncoderImages(file, size)[:4])))
}

// logitsAndLoss returns a function that computes the logits and the loss of a batch.
func logitsAndLoss[B any](task engine.Predictor[B], b B) func() (l, loss torch.Tensor) {
	return func() (l, loss torch.Tensor) {
		o := task.Predict(engine.ForwardPass{}, b)
		return o.Logits[0], task.LossOf(engine.ForwardPass{}, o).Value
	}
}

// ofPictures reports whether the model takes images.
func (e *Encoder) ofPictures() bool {
	return e.Head == imageClassification || e.Head == semanticSegmentation
}

// imageSize returns the size of the recorded images.
func (e *Encoder) imageSize(c *auto.ImageClassifier) classify.ImageLimits {
	size := c.ImageLimits()
	if e.Size != nil {
		size.Channels, size.Height, size.Width = e.Size[0], e.Size[1], e.Size[2]
	}
	return size
}

// saveAndLoad saves and loads the model: all bits are the same, nothing was drawn, and config.json
// has the same settings as transformers'.
func (e *Encoder) saveAndLoad(t *testing.T) {
	m, dir := e.Fresh(t, auto.Options{}), t.TempDir()
	require.NoError(t, m.Save(dir))
	before := Generator()
	again, err := e.Load(dir, auto.Options{})
	require.NoError(t, err)
	assert.Equal(t, before, Generator(), "loading drew numbers")
	assert.Empty(t, again.Report.Initialized)
	assert.Empty(t, again.Report.Unexpected)
	sameState(t, again, m)
	assert.ElementsMatch(t, e.Saved, golden.Load(t, filepath.Join(dir, "model.safetensors")).Names())
	var config map[string]any
	require.NoError(t, json.Unmarshal([]byte(read(t, dir, "config.json")), &config))
	for key, want := range e.Config {
		assert.Equal(t, want, config[key], key)
	}
}

// newHead loads the encoder alone and draws a head, as from_pretrained does.
func (e *Encoder) newHead(t *testing.T) {
	whole, dir := e.Fresh(t, auto.Options{}), t.TempDir()
	require.NoError(t, whole.WriteConfig(dir))
	size := func(m nn.Named) int { return len(nn.Params(m.Module)) }
	encoder := slices.MaxFunc(whole.OwnModules(), func(a, b nn.Named) int { return size(a) - size(b) })
	require.NoError(t, nn.Save(filepath.Join(dir, "model.safetensors"), encoder.Module, nil))
	torch.ManualSeed(5)
	m, err := e.Load(dir, auto.Options{})
	require.NoError(t, err)
	assert.NotEmpty(t, m.Report.Initialized)
	sameGenerator(t, e.FineGenerator)
	same(t, m, "weight", e.Fine, identity)
}

// run repeats a run of Trainer.
func (e *Encoder) run(t *testing.T, file *golden.File) {
	m := e.Fresh(t, auto.Options{})
	require.Len(t, e.Losses, 20)
	var rows []EncoderRow
	if !e.ofPictures() {
		rows = EncoderRows(file, e.Typed)
	}
	switch e.Head {
	case imageClassification:
		c := &auto.ImageClassifier{Model: m}
		repeat(t, e, c.Task(), EncoderImages(file, e.imageSize(c)))
	case semanticSegmentation:
		size := e.imageSize(&auto.ImageClassifier{Model: m})
		repeat(t, e, (&auto.SemanticSegmenter{Model: m}).Task(), EncoderMaps(file, size, m.Head().NumLabels))
	case "SequenceClassification":
		repeat(t, e, must(classify.NewTask(m, classify.TaskOptions{})), RowsAs(rows, EncoderRow.Sequence))
	case "TokenClassification":
		repeat(t, e, must(tokenclass.NewTask(m, tokenclass.TaskOptions{})), RowsAs(rows, EncoderRow.Token))
	case "MultipleChoice":
		repeat(t, e, must(classify.NewChoiceTask(m, classify.ChoiceTaskOptions{})), RowsAs(rows, EncoderRow.Choice))
	case "QuestionAnswering":
		repeat(t, e, must(question.NewTask(m, question.TaskOptions{})), RowsAs(rows, EncoderRow.Question))
	default:
		task := must(maskedlm.NewTask(m, maskedlm.TaskOptions{Masking: maskedlm.Masking{Seed: 11}, MaskTokenID: 4}))
		repeat(t, e, task, RowsAs(rows, EncoderRow.Masked))
	}
	sameGenerator(t, e.FinalGenerator)
	same(t, m, "final weight", e.Final, identity)
	sameBuffers(t, m, e.FinalBuffers)
}

func repeat[S, B any](t *testing.T, e *Encoder, task engine.Task[S, B], samples []S) {
	t.Helper()
	share := 1e-3
	if e.FinalBuffers != nil {
		share = Normalizing
	}
	TrainWithin(t, share, task, samples, 1, e.Losses, e.GradNorms)
}

// EncoderImages returns the 48 images of the given size in a golden file, normalized for its
// models.
func EncoderImages(file *golden.File, size classify.ImageLimits) (samples []classify.ImageSample) {
	raw := file.Tensor(fmt.Sprintf("pictures.%dx%dx%d", size.Channels, size.Height, size.Width))
	pixels := torch.Values[float32](raw.ToDType(torch.Float32).DivScalar(128).AddScalar(-1))
	each := len(pixels) / int(raw.Size(0))
	for i := range int(raw.Size(0)) {
		samples = append(samples, classify.ImageSample{Pixels: pixels[i*each:][:each], Shape: raw.Shape()[1:],
			Label: int64(i % 3)})
	}
	return samples
}

// EncoderMaps returns the images with their label maps for that many classes.
func EncoderMaps(file *golden.File, size classify.ImageLimits, classes int64) (samples []segment.Sample) {
	raw := file.Tensor(fmt.Sprintf("maps.%d.%dx%d", classes, size.Height, size.Width))
	labels := torch.Values[int64](raw.ToDType(torch.Int64))
	each := len(labels) / int(raw.Size(0))
	for i, s := range EncoderImages(file, size) {
		samples = append(samples, segment.Sample{Image: inputs.Image{Pixels: s.Pixels, Shape: s.Shape},
			Labels: labels[i*each:][:each]})
	}
	return samples
}

const (
	imageClassification  = "ImageClassification"
	semanticSegmentation = "SemanticSegmentation"
)

// Normalizing is the relative tolerance on other machines for models with batch normalization,
// which amplifies differences.
const Normalizing = 2e-2

// EncoderRow is a text with the labels for all heads.
type EncoderRow struct {
	Text              inputs.Text
	Tokens, Words     []int64
	Label, Start, End int64
}

// EncoderRows returns the 48 texts of a golden file.
func EncoderRows(file *golden.File, typed bool) (rows []EncoderRow) {
	numbers := torch.Values[int64](file.Tensor("numbers"))
	at := func(name string, i int, length int64) []int64 {
		all := torch.Values[int64](file.Tensor(name))
		width := len(all) / (len(numbers) / 4)
		return slices.Clone(all[i*width:][:length])
	}
	for i := range len(numbers) / 4 {
		n := numbers[4*i:]
		r := EncoderRow{Text: inputs.Text{InputIDs: at("ids", i, n[0])}, Tokens: at("tokens", i, n[0]),
			Words: at("words", i, n[0]), Label: n[1], Start: n[2], End: n[3]}
		if typed {
			r.Text.TokenTypeIDs = at("types", i, n[0])
		}
		rows = append(rows, r)
	}
	return rows
}

// NamedRows returns the 48 texts of models/auto/testdata/auto.safetensors for a padding id.
func NamedRows(file *golden.File, pad int, typed bool) (rows []EncoderRow) {
	for i := range 48 {
		values := func(name string) []int64 {
			return torch.Values[int64](file.Tensor(fmt.Sprintf("row.%d.%d.%s", pad, i, name)))
		}
		n := values("numbers")
		r := EncoderRow{Text: inputs.Text{InputIDs: values("ids")}, Tokens: values("tokens"), Words: values("words"),
			Label: n[0], Start: n[1], End: n[2]}
		if typed {
			r.Text.TokenTypeIDs = values("types")
		}
		rows = append(rows, r)
	}
	return rows
}

// resized truncates or extends the text to n tokens, as encoder.py does.
func (r EncoderRow) resized(n int) EncoderRow {
	fill := func(ids []int64, with int64) []int64 {
		if ids == nil {
			return nil
		}
		return append(slices.Clone(ids), slices.Repeat([]int64{with}, n)...)[:n]
	}
	r.Text = inputs.Text{InputIDs: fill(r.Text.InputIDs, 5), TokenTypeIDs: fill(r.Text.TokenTypeIDs, 1)}
	r.Tokens, r.Words = fill(r.Tokens, inputs.IgnoreIndex), fill(r.Words, inputs.IgnoreIndex)
	r.Words[1] = r.Text.InputIDs[1]
	r.Start, r.End = 1, 1
	return r
}

// Sequence returns the text with its class.
func (r EncoderRow) Sequence() classify.Sample {
	return classify.Sample{InputIDs: r.Text.InputIDs, TokenTypeIDs: r.Text.TokenTypeIDs, Label: r.Label}
}

// Choice returns the text as three choices, of which the second and the third lack some of its
// middle.
func (r EncoderRow) Choice() classify.ChoiceSample {
	part := func(values []int64, k int) []int64 {
		if values == nil {
			return nil
		}
		n := len(values)
		return slices.Concat(values[:1], values[min(1+k, n-1):n-1], values[n-1:])
	}
	s := classify.ChoiceSample{Label: r.Label}
	for k := range 3 {
		s.Choices = append(s.Choices, inputs.Text{InputIDs: part(r.Text.InputIDs, k),
			TokenTypeIDs: part(r.Text.TokenTypeIDs, k)})
	}
	return s
}

// Token returns the text with the classes of its tokens.
func (r EncoderRow) Token() tokenclass.Sample {
	return tokenclass.Sample{Text: r.Text, Labels: r.Tokens}
}

// Question returns the text with the position of the answer.
func (r EncoderRow) Question() question.Sample {
	return question.Sample{Text: r.Text, Start: r.Start, End: r.End}
}

// Masked returns the text with its first and last tokens excluded from masking.
func (r EncoderRow) Masked() maskedlm.Sample {
	special := make([]int64, len(r.Text.InputIDs))
	special[0], special[len(special)-1] = 1, 1
	return maskedlm.Sample{Text: r.Text, SpecialTokensMask: special}
}

// RowsAs applies f to all rows.
func RowsAs[T any](rows []EncoderRow, f func(EncoderRow) T) (list []T) {
	for _, r := range rows {
		list = append(list, f(r))
	}
	return list
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
