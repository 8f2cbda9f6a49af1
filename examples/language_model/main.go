// Command language_model trains a small GPT-2 to write text messages, from random weights. It shows
// how to learn a vocabulary, train, and generate text.
//
//	go run ./examples/language_model                          # then it writes three messages
//	go run ./examples/language_model -write "Are you coming"  # three more, of the model that was trained
//	go run ./examples/language_model -train lines.txt         # of your own texts, one in each line
//
// With -model it fine-tunes a GPT-2, Llama, Mistral, Qwen, Phi or Gemma of the Hub or of a folder,
// with that model's own vocabulary:
//
//	go run ./examples/language_model -train lines.txt -model HuggingFaceTB/SmolLM2-135M -epochs 1 -lr 5e-5
//	go run ./examples/language_model -train lines.txt -model HuggingFaceTB/SmolLM2-135M -epochs 1 -lr 2e-4 -lora 16
//
// With -lora only low-rank updates of its layers are trained and saved, for peft, in a few
// megabytes; with -load_in_4bit besides, the layers themselves take an eighth of the memory
// (QLoRA).
//
// With -chats it learns the assistant's replies in conversations, and then answers:
//
//	go run ./examples/language_model -chats chats.jsonl -model HuggingFaceTB/SmolLM2-135M-Instruct -epochs 1 -lr 5e-5
//	go run ./examples/language_model -ask "What is a goroutine?"
//
// A line of chats.jsonl is {"messages": [{"role": "user", "content": "Hello"}, {"role":
// "assistant", "content": "Hi!"}]}. They are formatted with the model's chat template, or with the
// program's own if it has none.
//
// With -preferences it learns which of two answers is better (DPO). Start from a model already
// trained on such answers in one of the ways above:
//
//	go run ./examples/language_model -preferences pairs.jsonl -epochs 1 -lr 1e-6 \
//	    -model HuggingFaceTB/SmolLM2-135M-Instruct
//
// A line of pairs.jsonl is {"prompt": "The sky is", "chosen": " blue.", "rejected": " green."}, or
// has lists of messages, as in chats.jsonl, in place of the three texts.
//
// The folder -out holds the checkpoints; transformers loads its subfolder model
// (AutoModelForCausalLM.from_pretrained). A stopped run continues where it stopped.
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
	"github.com/gotrainer/gotrainer/models/dpo"
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
	train, chats, preferences, model, out, write, ask, stop, device string
	epochs, rate                                                    float64
	block, seed, lora                                               int
	fourBit                                                         bool
	on                                                              torch.Device // parsed from device
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

// usage is printed by -h before the list of flags.
const usage = `Usage: language_model [flags]

Teaches a small GPT-2 to write, from random weights, or fine-tunes a larger one.

Flags:
`

func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("language_model", flag.ContinueOnError)
	f.StringVar(&o.train, "train", "", "file with a text in each line; default: 4,827 text messages that come with "+
		"the example")
	f.StringVar(&o.chats, "chats", "", "file with a conversation in each line, instead of -train")
	f.StringVar(&o.preferences, "preferences", "", "file with a prompt and a better and a worse answer in each line, "+
		"instead of -train; with -model")
	f.StringVar(&o.model, "model", "", "folder of a GPT-2, Llama, Mistral, Qwen, Phi or Gemma, or its name on the Hub; "+
		"default: a small GPT-2 of random weights")
	f.StringVar(&o.out, "out", "runs/language_model", "folder of the run")
	f.StringVar(&o.write, "write", "", "do not train: continue this text with the model in OUT")
	f.StringVar(&o.ask, "ask", "", "do not train: answer this with the model in OUT")
	f.StringVar(&o.stop, "stop", "", "what is written ends with these words, if it has them")
	f.StringVar(&o.device, "device", "auto", "auto (the GPU if there is one), cpu, cuda or cuda:N")
	f.Float64Var(&o.epochs, "epochs", 10, "passes over the texts")
	f.Float64Var(&o.rate, "lr", 2e-3, "the highest learning rate")
	f.IntVar(&o.block, "block", 64, "tokens in a block")
	f.IntVar(&o.lora, "lora", 0, "with -model: train only updates of this rank of all linear layers; 0: all weights")
	f.BoolVar(&o.fourBit, "load_in_4bit", false, "with -lora: hold the model's own linear layers in four bits (NF4)")
	f.IntVar(&o.seed, "seed", 1, "of weights, order and drawn tokens")
	if err := run.ParseFlags(f, usage, args); err != nil {
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
	if len(slices.DeleteFunc([]string{o.train, o.chats, o.preferences}, isEmpty)) > 1 || o.write != "" && o.ask != "" {
		return o, fmt.Errorf("want one of -train, -chats and -preferences, and one of -write and -ask, at most")
	}
	if o.preferences != "" && o.model == "" {
		return o, errors.New("want -model with -preferences, since a model is to write before it can write better")
	}
	if o.fourBit && o.lora == 0 {
		return o, errors.New("want -lora with -load_in_4bit, since weights in four bits are not trained themselves")
	}
	return o, nil
}

func isEmpty(s string) bool { return s == "" }

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
	var stops []string
	if o.stop != "" {
		stops = []string{o.stop}
	}
	if question != "" {
		answer, err := lm.Chat(ctx, chat.Conversation{Messages: []chat.Message{chat.User(question)}},
			auto.Generation{MaxNewTokens: 200, StopStrings: stops})
		fmt.Fprintf(out, "%s\n%s\n", question, answer)
		return err
	}
	texts, err := lm.GenerateBatch(ctx, []string{prompt}, auto.Generation{MaxNewTokens: 30, Sample: true, Temperature: 0.8,
		TopP: 0.95, NumReturnSequences: 3, StopStrings: stops})
	for _, more := range texts {
		fmt.Fprintf(out, "%s%s\n", prompt, more)
	}
	return err
}

// train saves the trained model in the folder trained, and returns a prompt for it to continue or a
// question for it to answer.
func train(ctx context.Context, o options, trained string, out io.Writer) (prompt, question string, err error) {
	if o.on, err = torch.ParseDevice(o.device); err != nil {
		return "", "", run.Usage(err)
	}
	var texts []string
	var chats []chat.Conversation
	var preferences []chat.Preference
	switch {
	case o.preferences != "":
		if preferences, err = chat.ReadPreferencesFile(o.preferences); err == nil && len(preferences) > 0 {
			p := preferences[0].Prompt
			prompt = p.Text
			_, question = messagesOf([]chat.Conversation{{Messages: p.Messages}})
		}
	case o.chats != "":
		if chats, err = chat.ReadFile(o.chats); err == nil {
			texts, question = messagesOf(chats)
		}
	default:
		prompt = "I"
		texts, err = read(o.train)
	}
	if err != nil {
		return "", "", err
	}
	torch.ManualSeed(uint64(o.seed))
	lm, err := model(ctx, o, texts)
	if err != nil {
		return "", "", err
	}
	switch {
	case o.preferences != "":
		err = trainPreferences(ctx, o, lm, preferences, out)
	case o.chats != "":
		var samples []causallm.Sample
		if samples, err = encodeChats(lm, chats); err == nil {
			err = trainNextToken(ctx, o, lm, samples, "conversations", out)
		}
	default:
		var samples []causallm.Sample
		if samples, err = encode(ctx, lm, texts, o.block); err == nil {
			err = trainNextToken(ctx, o, lm, samples, fmt.Sprintf("blocks of %d tokens", o.block), out)
		}
	}
	if err != nil {
		return "", "", err
	}
	return prompt, question, lm.Save(trained)
}

// trainNextToken trains the model to predict the next token.
func trainNextToken(ctx context.Context, o options, lm *auto.CausalLanguageModel, samples []causallm.Sample,
	what string, out io.Writer) error {
	best, held, err := fit(ctx, o, lm.Task(), samples, what)
	if err == nil {
		fmt.Fprintf(out, "perplexity of the %d %s that were held out: %.1f\n", held, strings.Fields(what)[0],
			math.Exp(best["eval_loss"]))
	}
	return err
}

// trainPreferences trains the model on preferences (DPO).
func trainPreferences(ctx context.Context, o options, lm *auto.CausalLanguageModel, preferences []chat.Preference,
	out io.Writer) error {
	if err := giveTemplate(lm, slices.ContainsFunc(preferences, chat.Preference.IsChat)); err != nil {
		return err
	}
	var samples []dpo.Sample
	for i, p := range preferences {
		s, err := lm.EncodePreference(p)
		if err != nil {
			return fmt.Errorf("preference %d: %w", i+1, err)
		}
		samples = append(samples, s)
	}
	task, err := lm.DPOTask(dpo.TaskOptions{})
	if err != nil {
		return err
	}
	best, held, err := fit(ctx, o, task, task.Keep(samples), "preferences")
	if err == nil {
		fmt.Fprintf(out, "of the %d preferences that were held out the model has %.0f%%, by %.2f on average\n", held,
			100*best["eval_rewards/accuracies"], best["eval_rewards/margins"])
	}
	return err
}

// fit holds out the first samples, trains on the others, and returns the metrics of the best
// evaluation and the number of held-out samples.
func fit[S, B any](ctx context.Context, o options, task engine.Task[S, B], samples []S, what string) (
	best trainer.Metrics, held int, err error) {
	held = max(1, len(samples)/20)
	if len(samples) <= held {
		return nil, 0, fmt.Errorf("the texts are %d %s; want at least 2, of which one is held out", len(samples), what)
	}
	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: o.rate}, Device: o.on})
	if err != nil {
		return nil, 0, err
	}
	t, err := trainer.New(step, trainer.Options{OutputDir: o.out, ResumeFrom: trainer.Latest, Epochs: o.epochs,
		BatchSize: 16, Schedule: lr.Cosine{Warmup: 0.1}, LoadBestAtEnd: true, Seed: uint64(o.seed)})
	if err != nil {
		return nil, 0, err
	}
	result, err := t.Fit(ctx, data.Slice[S](samples[held:]), data.Slice[S](samples[:held]))
	if err != nil {
		return nil, 0, err
	}
	return result.Best.Metrics, held, nil
}

// model loads the model to fine-tune, or creates a small one with a vocabulary learned from the
// texts.
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

// template is for models without a chat template: a line with the role, then the content. The loss
// is computed only on text between the generation tags.
const template = `{% for m in messages %}{{ m.role + '\n' }}{% if m.role == 'assistant' %}` +
	`{% generation %}{{ m.content + '<|endoftext|>' }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}{{ '\n' }}` +
	`{% endfor %}{% if add_generation_prompt %}{{ 'assistant\n' }}{% endif %}`

// giveTemplate sets the program's template if the model needs one and has none.
func giveTemplate(lm *auto.CausalLanguageModel, needed bool) (err error) {
	if lm.ChatTemplate != nil || !needed {
		return nil
	}
	end, ok := lm.Tokenizer.TokenToID("<|endoftext|>")
	if ends := lm.EOSTokenIDs(); !ok || !slices.Contains(ends, end) {
		return fmt.Errorf("the model has no chat template, and the program's own needs <|endoftext|> as its end")
	}
	lm.ChatTemplate, err = chat.Parse(template)
	return err
}

// encodeChats encodes each conversation as a sample.
func encodeChats(lm *auto.CausalLanguageModel, chats []chat.Conversation) (samples []causallm.Sample, err error) {
	if err := giveTemplate(lm, true); err != nil {
		return nil, err
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

// messagesOf returns the roles and contents of all messages, and the first message of a user.
func messagesOf(chats []chat.Conversation) (texts []string, question string) {
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

// encode joins the texts, each followed by an end-of-text token, and cuts them into blocks.
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

// read returns the nonempty lines of a file, or without a path the messages that are not spam.
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
