package data

import (
	"fmt"
	"reflect"
	"strconv"
)

// Collator returns a collate function that makes a batch B from samples S. Both are structs, and
// fields of the same name correspond. It does what DataCollatorWithPadding does for dictionaries,
// but mistakes are found when it is made and not in the middle of a run:
//
//	type Sample struct {
//		InputIDs []int64
//		Labels   []int64
//		Genre    string
//	}
//	type Batch struct {
//		InputIDs data.Padded[int64]              // of a slice: padded, with zeros
//		Mask     data.Padded[int64] `mask:"InputIDs"` // 1 where InputIDs holds an item, 0 at the padding
//		Labels   data.Padded[int64] `pad:"-100"`  // padded with another value
//		Genre    []string                        // of anything else: one value for each sample
//	}
//	collate, err := data.Collator[Sample, Batch](data.Padding{Multiple: 8})
//
// Each field is padded to its own longest sequence. Fields of S that B does not have are left out.
func Collator[S, B any](p Padding) (func([]S) (B, error), error) {
	from, to := reflect.TypeFor[S](), reflect.TypeFor[B]()
	if from.Kind() != reflect.Struct || to.Kind() != reflect.Struct {
		return nil, fmt.Errorf("data: Collator needs two structs, got %v and %v", from, to)
	}
	if _, err := p.width(nil); err != nil {
		return nil, err
	}
	var plan, masks []fieldPlan
	for i := range to.NumField() {
		field := to.Field(i)
		if !field.IsExported() {
			continue
		}
		c, isMask, err := planField(from, to, field)
		if err != nil {
			return nil, fmt.Errorf("data: Collator: field %s of %v: %w", field.Name, to, err)
		}
		if c.target = i; isMask {
			masks = append(masks, c)
		} else {
			plan = append(plan, c)
		}
	}
	plan = append(plan, masks...) // masks come last: they are made from padded fields
	return func(samples []S) (B, error) {
		var batch B
		in, out := reflect.ValueOf(samples), reflect.ValueOf(&batch).Elem()
		for _, c := range plan {
			if err := c.fill(in, out, c, p); err != nil {
				var none B
				return none, fmt.Errorf("field %s: %w", to.Field(c.target).Name, err)
			}
		}
		return batch, nil
	}, nil
}

// fieldPlan says how a field of a batch is made.
type fieldPlan struct {
	target int    // its index in the batch
	source int    // the index of its source: in the sample, or in the batch if it is a mask
	value  string // the padding value, as written in the tag
	fill   func(samples, batch reflect.Value, c fieldPlan, p Padding) error
}

// paddable is implemented by *Padded[T] for every T.
type paddable interface {
	item() reflect.Type
	fill(samples reflect.Value, c fieldPlan, p Padding) error
	check(value string) error
}

// maskable is implemented by Padded[T] for every T.
type maskable interface{ Mask() Padded[int64] }

func planField(from, to reflect.Type, field reflect.StructField) (c fieldPlan, isMask bool, err error) {
	if name, ok := field.Tag.Lookup("mask"); ok {
		source, found := to.FieldByName(name)
		switch {
		case field.Type != reflect.TypeFor[Padded[int64]]():
			return c, false, fmt.Errorf("a mask is a data.Padded[int64], not %v", field.Type)
		case !found || len(source.Index) != 1 || source.Tag.Get("mask") != "" ||
			!source.Type.Implements(reflect.TypeFor[maskable]()):
			return c, false, fmt.Errorf("its tag asks for the mask of %s, which is not a padded field of the batch", name)
		}
		c.source, c.fill = source.Index[0], func(_, batch reflect.Value, c fieldPlan, _ Padding) error {
			batch.Field(c.target).Set(reflect.ValueOf(batch.Field(c.source).Interface().(maskable).Mask()))
			return nil
		}
		return c, true, nil
	}
	source, found := from.FieldByName(field.Name)
	if !found || !source.IsExported() || len(source.Index) != 1 {
		return c, false, fmt.Errorf("the sample, %v, has no field of this name", from)
	}
	c.source, c.value = source.Index[0], field.Tag.Get("pad")
	if target, ok := reflect.New(field.Type).Interface().(paddable); ok {
		if want := reflect.SliceOf(target.item()); source.Type != want {
			return c, false, fmt.Errorf("%v is made from %v, but the field of the sample is %v", field.Type, want,
				source.Type)
		}
		c.fill = func(samples, batch reflect.Value, c fieldPlan, p Padding) error {
			return batch.Field(c.target).Addr().Interface().(paddable).fill(samples, c, p)
		}
		return c, false, target.check(c.value)
	}
	switch {
	case c.value != "":
		return c, false, fmt.Errorf("it has a tag pad:%q but is %v, want data.Padded", c.value, field.Type)
	case field.Type != reflect.SliceOf(source.Type):
		return c, false, fmt.Errorf("it is %v, want %v, or data.Padded of a slice; the field of the sample is %v",
			field.Type, reflect.SliceOf(source.Type), source.Type)
	}
	c.fill = stackField
	return c, false, nil
}

// stackField copies a field of all samples into a slice.
func stackField(samples, batch reflect.Value, c fieldPlan, _ Padding) error {
	field := batch.Field(c.target)
	field.Set(reflect.MakeSlice(field.Type(), samples.Len(), samples.Len()))
	for i := range samples.Len() {
		field.Index(i).Set(samples.Index(i).Field(c.source))
	}
	return nil
}

func (p *Padded[T]) item() reflect.Type { return reflect.TypeFor[T]() }

func (p *Padded[T]) check(value string) error {
	_, err := parsePadding[T](value)
	return err
}

func (p *Padded[T]) fill(samples reflect.Value, c fieldPlan, how Padding) error {
	value, err := parsePadding[T](c.value)
	if err != nil {
		return err
	}
	rows := make([][]T, samples.Len())
	for i := range rows {
		rows[i] = *samples.Index(i).Field(c.source).Addr().Interface().(*[]T)
	}
	*p, err = padRows(rows, value, how)
	return err
}

// parsePadding parses the value of a pad tag; an empty one means zero.
func parsePadding[T any](text string) (value T, err error) {
	if text == "" {
		return value, nil
	}
	v := reflect.ValueOf(&value).Elem()
	switch {
	case v.CanInt():
		n, err := strconv.ParseInt(text, 10, v.Type().Bits())
		v.SetInt(n)
		return value, wrapTag(text, v.Type(), err)
	case v.CanUint():
		n, err := strconv.ParseUint(text, 10, v.Type().Bits())
		v.SetUint(n)
		return value, wrapTag(text, v.Type(), err)
	case v.CanFloat():
		x, err := strconv.ParseFloat(text, v.Type().Bits())
		v.SetFloat(x)
		return value, wrapTag(text, v.Type(), err)
	case v.Kind() == reflect.Bool:
		b, err := strconv.ParseBool(text)
		v.SetBool(b)
		return value, wrapTag(text, v.Type(), err)
	}
	return value, fmt.Errorf("its tag pad:%q cannot be a %v; only numbers and bools have a padding other than zero",
		text, v.Type())
}

func wrapTag(text string, t reflect.Type, err error) error {
	if err != nil {
		return fmt.Errorf("its tag pad:%q is not of type %v: %w", text, t, err)
	}
	return nil
}
