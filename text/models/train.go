package models

import (
	"cmp"
	"container/heap"
	"fmt"
	"maps"
	"math"
	"slices"
)

// TrainOptions configures training a vocabulary. The zero value means the defaults of the
// reference.
type TrainOptions struct {
	VocabSize       int      // tokens at most; 0 means 30,000
	MinFrequency    int      // pairs that occur less often are not joined; 0 means no limit
	SpecialTokens   []string // the first tokens of the vocabulary
	LimitAlphabet   int      // maximum number of single characters, the most frequent ones; 0 means no limit
	InitialAlphabet []rune   // characters that are in the vocabulary even if no word contains them
	Prefix          string   // of tokens that continue a word; empty means ## for WordPiece, none for BPE
	UnknownToken    string   // of the model; empty means [UNK] for WordPiece, none for BPE
}

// TrainWordPiece learns a vocabulary from words and their counts. Like WordPieceTrainer of the
// reference, it joins the most frequent pair of tokens until the vocabulary is full; this is byte
// pair encoding with a prefix, since Google's trainer was never published. Of pairs with the same
// count, it takes the one whose tokens were added to the vocabulary first. In the reference this
// depends on the order of a hash table, which changes from run to run; here characters get their
// ids in the byte order of the words, so the same words give the same vocabulary.
func TrainWordPiece(words map[string]int, o TrainOptions) (*WordPiece, error) {
	o.Prefix = cmp.Or(o.Prefix, "##")
	t, err := train(words, o)
	if err != nil {
		return nil, err
	}
	return NewWordPiece(t.vocab(), WordPieceOptions{UnknownToken: o.UnknownToken, Prefix: o.Prefix})
}

// TrainBPE learns a vocabulary and merges from words and their counts, as BpeTrainer of the
// reference does. See [TrainWordPiece] for pairs with the same count; without a prefix, the
// reference does not depend on a hash table, and its merges are the same.
func TrainBPE(words map[string]int, o TrainOptions) (*BPE, error) {
	t, err := train(words, o)
	if err != nil {
		return nil, err
	}
	return NewBPE(t.vocab(), t.merges, BPEOptions{UnknownToken: o.UnknownToken, Prefix: o.Prefix})
}

// train joins pairs until the vocabulary is full.
func train(words map[string]int, o TrainOptions) (*training, error) {
	if o.VocabSize == 0 {
		o.VocabSize = 30000
	}
	if o.VocabSize < 0 || o.MinFrequency < 0 || o.LimitAlphabet < 0 {
		return nil, fmt.Errorf("training a vocabulary: size %d, frequency %d and alphabet %d must not be negative",
			o.VocabSize, o.MinFrequency, o.LimitAlphabet)
	}
	t := &training{o: o, ids: map[string]int32{}}
	for _, token := range o.SpecialTokens {
		t.add(token)
	}
	order := slices.Sorted(maps.Keys(words))
	for _, w := range order {
		if words[w] < 0 {
			return nil, fmt.Errorf("training a vocabulary: word %q occurs %d times", w, words[w])
		}
	}
	t.alphabet(words)
	t.cut(order, words)
	t.join()
	return t, nil
}

type pair [2]int32

// training is the state of training a vocabulary.
type training struct {
	o      TrainOptions
	ids    map[string]int32
	tokens []string
	merges [][2]string // in the order in which they were learned

	words  [][]int32 // each word as tokens
	counts []int64   // how often it occurs
	pairs  map[pair]int64
}

func (t *training) vocab() map[string]int64 {
	vocab := make(map[string]int64, len(t.tokens))
	for token, id := range t.ids {
		vocab[token] = int64(id)
	}
	return vocab
}

func (t *training) add(token string) int32 {
	if id, ok := t.ids[token]; ok {
		return id
	}
	id := int32(len(t.tokens))
	t.ids[token] = id
	t.tokens = append(t.tokens, token)
	return id
}

// alphabet adds the single characters, in the order of their code points.
func (t *training) alphabet(words map[string]int) {
	counts := map[rune]int64{}
	for word, n := range words {
		for _, r := range word {
			counts[r] += int64(n)
		}
	}
	for _, r := range t.o.InitialAlphabet {
		counts[r] = math.MaxInt64
	}
	kept := slices.Collect(maps.Keys(counts))
	if limit := t.o.LimitAlphabet; limit > 0 && len(kept) > limit {
		slices.SortFunc(kept, func(a, b rune) int {
			return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
		})
		kept = kept[:limit]
	}
	slices.Sort(kept)
	for _, r := range kept {
		t.add(string(r))
	}
}

// cut splits each word into single characters. Characters outside the alphabet are left out.
func (t *training) cut(order []string, words map[string]int) {
	for _, word := range order {
		var tokens []int32
		for i, r := range word {
			if _, ok := t.ids[string(r)]; !ok {
				continue
			}
			if i == 0 {
				tokens = append(tokens, t.add(string(r)))
			} else {
				tokens = append(tokens, t.add(t.o.Prefix+string(r)))
			}
		}
		t.words = append(t.words, tokens)
		t.counts = append(t.counts, int64(words[word]))
	}
}

// candidate is a pair that may be joined next, and the words that contain it.
type candidate struct {
	pair  pair
	count int64
	words []int32 // indices of the words, ascending
}

// queue is a heap with the most frequent pair on top; of pairs with the same count, the one with
// the smaller ids.
type queue []candidate

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, k int) bool {
	return cmp.Or(cmp.Compare(q[k].count, q[i].count), cmp.Compare(q[i].pair[0], q[k].pair[0]),
		cmp.Compare(q[i].pair[1], q[k].pair[1])) < 0
}
func (q queue) Swap(i, k int) { q[i], q[k] = q[k], q[i] }
func (q *queue) Push(c any)   { *q = append(*q, c.(candidate)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// join joins pairs until the vocabulary is full or no pair is frequent enough.
func (t *training) join() {
	t.pairs = map[pair]int64{}
	where := map[pair][]int32{}
	for i, tokens := range t.words {
		for k := 1; k < len(tokens); k++ {
			p := pair{tokens[k-1], tokens[k]}
			t.pairs[p] += t.counts[i]
			if list := where[p]; len(list) == 0 || list[len(list)-1] != int32(i) {
				where[p] = append(list, int32(i))
			}
		}
	}
	var q queue
	push := func() {
		for p, words := range where {
			if n := t.pairs[p]; n > 0 {
				heap.Push(&q, candidate{p, n, words})
			}
		}
		clear(where)
	}
	push()
	for len(t.tokens) < t.o.VocabSize && q.Len() > 0 {
		top := heap.Pop(&q).(candidate)
		if now := t.pairs[top.pair]; top.count != now { // other joins have removed occurrences since
			top.count = now
			heap.Push(&q, top)
			continue
		}
		if top.count < 1 || top.count < int64(t.o.MinFrequency) {
			return
		}
		first, second := t.tokens[top.pair[0]], t.tokens[top.pair[1]]
		t.merges = append(t.merges, [2]string{first, second})
		if len(second) >= len(t.o.Prefix) && second[:len(t.o.Prefix)] == t.o.Prefix {
			second = second[len(t.o.Prefix):]
		}
		joined := t.add(first + second)
		for _, w := range top.words {
			t.merge(w, top.pair, joined, where)
		}
		push()
	}
}

// merge joins a pair in a word and updates the counts of the pairs around it.
func (t *training) merge(word int32, p pair, joined int32, where map[pair][]int32) {
	tokens, n := t.words[word], t.counts[word]
	more := func(p pair) {
		t.pairs[p] += n
		if list := where[p]; len(list) == 0 || list[len(list)-1] != word {
			where[p] = append(list, word)
		}
	}
	for i := 0; i+1 < len(tokens); i++ {
		if tokens[i] != p[0] || tokens[i+1] != p[1] {
			continue
		}
		if i > 0 {
			t.pairs[pair{tokens[i-1], p[0]}] -= n
			more(pair{tokens[i-1], joined})
		}
		tokens[i] = joined
		tokens = slices.Delete(tokens, i+1, i+2)
		if i+1 < len(tokens) {
			t.pairs[pair{p[1], tokens[i+1]}] -= n
			more(pair{joined, tokens[i+1]})
		}
	}
	t.words[word] = tokens
}
