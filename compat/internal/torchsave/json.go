package torchsave

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/gotrainer/gotrainer/safetensors/pickle"
)

// FromJSON makes a file's value of JSON. Objects keep the order of their fields; numbers with a
// point or an exponent are float64, others int64.
func FromJSON(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := decode(d)
	if err == nil {
		if _, end := d.Token(); !errors.Is(end, io.EOF) {
			err = errors.New("there is more than one value")
		}
	}
	return v, err
}

func decode(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	delimiter, composite := token.(json.Delim)
	if !composite {
		return Value("", token)
	}
	object, list := &pickle.Dict{}, &pickle.List{}
	for d.More() {
		var key any
		if delimiter == '{' {
			if key, err = d.Token(); err != nil {
				return nil, err
			}
		}
		v, err := decode(d)
		if err != nil {
			return nil, err
		}
		if delimiter == '{' {
			Set(object, key, v)
		} else {
			list.Items = append(list.Items, v)
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if delimiter == '{' {
		return object, nil
	}
	return list, nil
}
