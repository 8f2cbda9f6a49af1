package vision

import (
	"bytes"
	"encoding/binary"
	"image"

	"golang.org/x/image/tiff"
)

// decodeTIFF decodes the first image of a file. golang.org/x/image inverts images with fax
// compression if the file says that zero is black, as Pillow's files do; decodeTIFF corrects this.
func decodeTIFF(raw []byte) (image.Image, error) {
	im, err := tiff.Decode(bytes.NewReader(raw))
	if gray, ok := im.(*image.Gray); ok {
		const compression, group3, group4, photometric, blackIsZero = 259, 3, 4, 262, 1
		coding := tiffTag(raw, compression)
		if (coding == group3 || coding == group4) && tiffTag(raw, photometric) == blackIsZero {
			for i, v := range gray.Pix {
				gray.Pix[i] = 255 - v
			}
		}
	}
	return im, err
}

// tiffTag returns a tag of type SHORT from the directory of the first image, or 0 if there is none.
func tiffTag(raw []byte, tag uint16) uint16 {
	order := binary.ByteOrder(binary.LittleEndian)
	if raw[0] == 'M' {
		order = binary.BigEndian
	}
	const count, entry, value = 2, 12, 8 // bytes: the number of entries, an entry, and where its value is
	directory := raw[min(int64(order.Uint32(raw[4:])), int64(len(raw))):]
	if len(directory) < count {
		return 0
	}
	directory = directory[count:][:min(entry*int(order.Uint16(directory)), len(directory)-count)]
	for ; len(directory) >= entry; directory = directory[entry:] {
		if order.Uint16(directory) == tag {
			return order.Uint16(directory[value:])
		}
	}
	return 0
}
