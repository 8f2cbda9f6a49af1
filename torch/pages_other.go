//go:build !linux

package torch

import "errors"

func readPages([]byte) error { return errors.ErrUnsupported }
