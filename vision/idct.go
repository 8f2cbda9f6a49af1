package vision

// zigzag holds the positions in a block of its coefficients, in their order in a JPEG file.
var zigzag = [64]uint8{
	0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28,
	35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55,
	62, 63,
}

// inverseDCT computes the samples of a block from its coefficients, which are zero after number
// highest (in the order of the file). It is jpeg_idct_islow of libjpeg, whose constants have 13
// fractional bits, two of which are kept between the passes over columns and rows.
func inverseDCT(b *[64]int32, highest int, out []uint8, stride int) {
	const between = 2
	if highest == 0 {
		v := clamp8((b[0]<<between+1<<(between+2))>>(between+3) + 128)
		for y := range 8 {
			row := out[y*stride:][:8]
			for x := range row {
				row[x] = v
			}
		}
		return
	}
	const half = 1 << (dctBits - between - 1)
	for x := range 8 {
		if b[8+x]|b[16+x]|b[24+x]|b[32+x]|b[40+x]|b[48+x]|b[56+x] == 0 {
			v := b[x] << between
			b[x], b[8+x], b[16+x], b[24+x], b[32+x], b[40+x], b[48+x], b[56+x] = v, v, v, v, v, v, v, v
			continue
		}
		s0, s1, s2, s3, s4, s5, s6, s7 := dct(b[x], b[8+x], b[16+x], b[24+x], b[32+x], b[40+x], b[48+x], b[56+x])
		b[x], b[8+x] = (s0+half)>>(dctBits-between), (s1+half)>>(dctBits-between)
		b[16+x], b[24+x] = (s2+half)>>(dctBits-between), (s3+half)>>(dctBits-between)
		b[32+x], b[40+x] = (s4+half)>>(dctBits-between), (s5+half)>>(dctBits-between)
		b[48+x], b[56+x] = (s6+half)>>(dctBits-between), (s7+half)>>(dctBits-between)
	}
	const bits = dctBits + between + 3
	const round = 1<<(bits-1) + 128<<bits
	for y := range 8 {
		v, row := b[8*y:][:8], out[y*stride:][:8]
		s0, s1, s2, s3, s4, s5, s6, s7 := dct(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7])
		row[0], row[1] = clamp8((s0+round)>>bits), clamp8((s1+round)>>bits)
		row[2], row[3] = clamp8((s2+round)>>bits), clamp8((s3+round)>>bits)
		row[4], row[5] = clamp8((s4+round)>>bits), clamp8((s5+round)>>bits)
		row[6], row[7] = clamp8((s6+round)>>bits), clamp8((s7+round)>>bits)
	}
}

const dctBits = 13 // fractional bits of dct's constants

// dct computes the one-dimensional inverse transform of eight coefficients by the algorithm of
// Loeffler, Ligtenberg and Moschytz, times 1<<dctBits.
func dct(c0, c1, c2, c3, c4, c5, c6, c7 int32) (s0, s1, s2, s3, s4, s5, s6, s7 int32) {
	z := (c2 + c6) * 4433
	e2, e3 := z-c6*15137, z+c2*6270
	e0, e1 := (c0+c4)<<dctBits, (c0-c4)<<dctBits
	a0, a3, a1, a2 := e0+e3, e0-e3, e1+e2, e1-e2

	z1, z2, z3, z4 := (c7+c1)*-7373, (c5+c3)*-20995, c7+c3, c5+c1
	z5 := (z3 + z4) * 9633
	z3, z4 = z3*-16069+z5, z4*-3196+z5
	o0, o1 := c7*2446+z1+z3, c5*16819+z2+z4
	o2, o3 := c3*25172+z2+z3, c1*12299+z1+z4
	return a0 + o3, a1 + o2, a2 + o1, a3 + o0, a3 - o0, a2 - o1, a1 - o2, a0 - o3
}
