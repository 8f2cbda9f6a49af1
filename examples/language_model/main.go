// Command language_model trains a small GPT-2 to write text messages, from random weights: the
// vocabulary, the training, the generation.
//
//	go run ./examples/language_model                          # then it writes three messages
//	go run ./examples/language_model -write "Are you coming"  # three more, of the model that was trained
//	go run ./examples/language_model -train lines.txt         # of your own texts, one in each line
//
// With -model it fine-tunes a GPT-2, Llama, Mistral, Qwen, Phi or Gemma of the Hub or of a folder, with
// that model's own vocabulary:
//
//	go run ./examples/language_model -train lines.txt -model HuggingFaceTB/SmolLM2-135M -epochs 1 -lr 5e-5
//	go run ./examples/language_model -train lines.txt -model HuggingFaceTB/SmolLM2-135M -epochs 1 -lr 2e-4 -lora 16
//
// With -lora only low-rank updates of its layers are trained and saved, for peft, in a few megabytes; with
// -load_in_4bit besides, the layers themselves take an eighth of the memory (QLoRA).
//
// With -chats it learns from conversations what the assistant says, and then answers:
//
//	go run ./examples/language_model -chats chats.jsonl -model HuggingFaceTB/SmolLM2-135M-Instruct -epochs 1 -lr 5e-5
//	go run ./examples/language_model -ask "What is a goroutine?"
//
// A line of chats.jsonl is {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant",
// "content": "Hi!"}]}. They are written with the model's chat template, or with one of the program's if
// it has none.
//
// The folder -out holds the checkpoints; its subfolder model is one that transformers loads
// (AutoModelForCausalLM.from_pretrained). A stopped run continues where it was.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/examples/bert_classification/sms"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/causallm"
	"github.com/gotrainer/gotrainer/models/gpt2"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/nn/quantized"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/chat"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

type options struct {
	train, chats, model, out, write, ask, device string
	epochs                                       float64
	rate                                         float64
	block, seed, lora                            int
	fourBit                                      bool
}

func main() {
	run.Main(func(ctx context.Context) error {
		o, err := parse(os.Args[1:])
		if err != nil {
			return run.Usage(err)
		}
		return execute(ctx, o, os.Stdout)
	})
}

func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("language_model", flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprint(f.Output(), "Usage: language_model [flags]\n\nTeaches a small GPT-2 to write, from random weights, or "+
			"fine-tunes a larger one.\n\n")
		f.PrintDefaults()
	}
	f.StringVar(&o.train, "train", "", "file with a text in each line; default: 4,827 text messages that come with "+
		"the example")
	f.StringVar(&o.chats, "chats", "", "file with a conversation in each line, instead of -train")
	f.StringVar(&o.model, "model", "", "folder of a GPT-2, Llama, Mistral, Qwen, Phi or Gemma, or its name on the Hub; "+
		"default: a small GPT-2 of random weights")
	f.StringVar(&o.out, "out", "runs/language_model", "folder of the run")
	f.StringVar(&o.write, "write", "", "do not train: continue this text with the model in OUT")
	f.StringVar(&o.ask, "ask", "", "do not train: answer this with the model in OUT")
	f.StringVar(&o.device, "device", "auto", "auto (the GPU if there is one), cpu, cuda or cuda:N")
	f.Float64Var(&o.epochs, "epochs", 10, "passes over the texts")
	f.Float64Var(&o.rate, "lr", 2e-3, "the highest learning rate")
	f.IntVar(&o.block, "block", 64, "tokens in a block")
	f.IntVar(&o.lora, "lora", 0, "with -model: train only updates of this rank of all linear layers; 0: all weights")
	f.BoolVar(&o.fourBit, "load_in_4bit", false, "with -lora: hold the model's own linear layers in four bits (NF4)")
	f.IntVar(&o.seed, "seed", 1, "of weights, order and drawn tokens")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 || !(o.epochs > 0) || !(o.rate > 0) || o.block < 2 || o.seed < 0 {
		return o, fmt.Errorf("want flags alone, -epochs and -lr above 0, -block of at least 2 and -seed of at least 0; "+
			"found %q, %g, %g, %d and %d", f.Args(), o.epochs, o.rate, o.block, o.seed)
	}
	if o.lora < 0 || o.lora > 0 && o.model == "" {
		return o, fmt.Errorf("want -lora of at least 0, and with it -model, since weights that are random are to be trained "+
			"themselves; found %d and %q", o.lora, o.model)
	}
	if o.train != "" && o.chats != "" || o.write != "" && o.ask != "" {
		return o, fmt.Errorf("want one of -train and -chats, and one of -write and -ask, at most")
	}
	if o.fourBit && o.lora == 0 {
		return o, errors.New("want -lora with -load_in_4bit, since weights in four bits are not trained themselves")
	}
	return o, nil
}

func execute(ctx context.Context, o options, out io.Writer) error {
	trained := filepath.Join(o.out, "model")
	prompt, question := o.write, o.ask
	if prompt+question == "" {
		var err error
		if prompt, question, err = train(ctx, o, trained, out); err != nil {
			return err
		}
	}
	if _, err := os.Stat(trained); err != nil {
		return fmt.Errorf("there is no trained model to write with: %w", err)
	}
	lm, err := auto.CausalLM(ctx, trained, auto.Options{})
	if err != nil {
		return err
	}
	torch.ManualSeed(uint64(o.seed))
	if question != "" {
		answer, err := lm.Chat(ctx, chat.Conversation{Messages: []chat.Message{chat.User(question)}},
			auto.Generation{MaxNewTokens: 200})
		fmt.Fprintf(out, "%s\n%s\n", question, answer)
		return err
	}
	for range 3 {
		more, err := lm.Generate(ctx, prompt, auto.Generation{MaxNewTokens: 30, Sample: true, Temperature: 0.8, TopP: 0.95})
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s%s\n", prompt, more)
	}
	return nil
}

// train writes a model into the folder trained, and returns what it may continue, or a question that it
// may answer.
func train(ctx context.Context, o options, trained string, out io.Writer) (prompt, question string, err error) {
	device, err := torch.ParseDevice(o.device)
	if err != nil {
		return "", "", run.Usage(err)
	}
	var texts []string
	var chats []chat.Conversation
	what := fmt.Sprintf("blocks of %d tokens", o.block)
	if o.chats == "" {
		prompt = "I"
		texts, err = read(o.train)
	} else {
		what = "conversations"
		if chats, err = chat.ReadFile(o.chats); err == nil {
			texts, question = said(chats)
		}
	}
	if err != nil {
		return "", "", err
	}
	torch.ManualSeed(uint64(o.seed))
	lm, err := model(ctx, o, texts)
	if err != nil {
		return "", "", err
	}
	var samples []causallm.Sample
	if o.chats == "" {
		samples, err = encode(ctx, lm, texts, o.block)
	} else {
		samples, err = encodeChats(lm, chats)
	}
	if err != nil {
		return "", "", err
	}
	held := max(1, len(samples)/20) // the first texts are not trained on
	if len(samples) <= held {
		return "", "", fmt.Errorf("the texts are %d %s; want at least 2, of which one is held out", len(samples), what)
	}
	trainSet, evalSet := data.Slice[causallm.Sample](samples[held:]), data.Slice[causallm.Sample](samples[:held])
	step, err := engine.New(lm.Task(), engine.Options{Optimizer: optim.AdamW{LR: o.rate}, Device: device})
	if err != nil {
		return "", "", err
	}
	t, err := trainer.New(step, trainer.Options{OutputDir: o.out, ResumeFrom: trainer.Latest, Epochs: o.epochs,
		BatchSize: 16, Schedule: lr.Cosine{Warmup: 0.1}, LoadBestAtEnd: true, Seed: uint64(o.seed)})
	if err != nil {
		return "", "", err
	}
	result, err := t.Fit(ctx, trainSet, evalSet)
	if err != nil {
		return "", "", err
	}
	fmt.Fprintf(out, "perplexity of the %d %s that were held out: %.1f\n", held, strings.Fields(what)[0],
		math.Exp(result.Best.Metrics["eval_loss"]))
	return prompt, question, lm.Save(trained)
}

// model is the one to fine-tune, or a small one with a vocabulary of the texts.
func model(ctx context.Context, o options, texts []string) (*auto.CausalLanguageModel, error) {
	if o.model != "" {
		how := auto.Options{}
		if o.fourBit {
			how.DType, how.Quantize = torch.BFloat16, &quantized.Config{Type: quantized.NF4, DoubleQuant: true,
				ComputeDType: torch.BFloat16}
		}
		lm, err := auto.CausalLM(ctx, o.model, how)
		if err == nil && o.lora > 0 {
			err = lm.AddLoRA(lora.Config{R: int64(o.lora), Alpha: 2 * float64(o.lora), TargetModules: []string{lora.AllLinear}})
		}
		return lm, err
	}
	tok, err := text.TrainByteLevel(slices.Values(texts), text.TrainOptions{VocabSize: 2000})
	if err != nil {
		return nil, err
	}
	end, _ := tok.TokenToID("<|endoftext|>")
	return auto.NewCausalLM(gpt2.Config{VocabSize: int64(tok.VocabSize()), MaxPositions: int64(max(o.block, 64)),
		HiddenSize: 128, NumLayers: 4, NumHeads: 4, EOSTokenIDs: []int64{end}}, tok)
}

// template is for models that have none: a line with the role, and what is said below it. What is
// between the tags of generation is learned.
const template = `{% for m in messages %}{{ m.role + '\n' }}{% if m.role == 'assistant' %}` +
	`{% generation %}{{ m.content + '<|endoftext|>' }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}{{ '\n' }}` +
	`{% endfor %}{% if add_generation_prompt %}{{ 'assistant\n' }}{% endif %}`

// encodeChats makes a sample of each conversation.
func encodeChats(lm *auto.CausalLanguageModel, chats []chat.Conversation) (samples []causallm.Sample, err error) {
	if lm.ChatTemplate == nil {
		end, ok := lm.Tokenizer.TokenToID("<|endoftext|>")
		if ends := lm.EOSTokenIDs(); !ok || !slices.Contains(ends, end) {
			return nil, fmt.Errorf("the model has no chat template, and the program's own needs <|endoftext|> as its end")
		}
		if lm.ChatTemplate, err = chat.Parse(template); err != nil {
			return nil, err
		}
	}
	for i, c := range chats {
		s, err := lm.EncodeChat(c)
		if err != nil {
			return nil, fmt.Errorf("conversation %d: %w", i+1, err)
		}
		samples = append(samples, s)
	}
	return samples, nil
}

// said is all that is said, and the first question of a user.
func said(chats []chat.Conversation) (texts []string, question string) {
	for _, c := range chats {
		for _, m := range c.Messages {
			texts = append(texts, m.Role(), m.Content())
			if question == "" && m.Role() == "user" {
				question = m.Content()
			}
		}
	}
	return texts, question
}

// encode cuts blocks of the texts, each with its end behind it.
func encode(ctx context.Context, lm *auto.CausalLanguageModel, texts []string, size int) ([]causallm.Sample, error) {
	inputs := make([]text.Input, len(texts))
	for i, s := range texts {
		inputs[i] = text.Single(s)
	}
	ids, err := lm.Tokenizer.IDsBatch(ctx, inputs, nil)
	if err != nil {
		return nil, err
	}
	if ends := lm.EOSTokenIDs(); len(ends) > 0 {
		for i := range ids {
			ids[i] = append(ids[i], ends[0])
		}
	}
	return causallm.Blocks(ids, size)
}

// read returns the lines of a file that are not empty; without a name, the messages that are no spam.
func read(path string) (texts []string, err error) {
	if path == "" {
		messages, err := sms.Messages()
		if err != nil {
			return nil, err
		}
		for _, m := range messages {
			if sms.Labels[m.Label] == "ham" {
				texts = append(texts, m.Text)
			}
		}
		return texts, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(content)) {
		if line = strings.TrimSpace(line); line != "" {
			texts = append(texts, line)
		}
	}
	if len(texts) == 0 {
		return nil, fmt.Errorf("%s has no texts; want one in each line", path)
	}
	return texts, nil
}
