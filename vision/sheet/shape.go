package sheet

// visual turns a text into the code points to draw from left to right: runs of Persian letters are
// reversed and replaced by joining presentation forms; everything else is unchanged. This is enough
// for labels, names and short answers in a line from left to right; text with combining marks or
// several directions needs a shaping engine.
func visual(s string) string {
	in := []rune(s)
	out := make([]rune, 0, len(in))
	for i := 0; i < len(in); {
		j := i
		for j < len(in) && forms[in[j]] != nil {
			j++
		}
		if i == j {
			out = append(out, in[i])
			i++
			continue
		}
		for k := j - 1; k >= i; k-- {
			before := k > i && len(forms[in[k-1]]) == 4 // the previous letter joins forward
			after := k+1 < j
			out = append(out, form(forms[in[k]], before, after))
		}
		i = j
	}
	return string(out)
}

// form returns the isolated, final, initial or medial form; letters with two forms never join
// forward.
func form(f []rune, before, after bool) rune {
	after = after && len(f) == 4
	switch {
	case before && after:
		return f[3]
	case after:
		return f[2]
	case before:
		return f[1]
	}
	return f[0]
}

// forms holds the presentation forms of the Persian letters: isolated, final and, where a letter
// joins forward, initial and medial (Unicode, Arabic Presentation Forms A and B).
var forms = map[rune][]rune{
	'آ': {0xFE81, 0xFE82}, 'ا': {0xFE8D, 0xFE8E}, 'د': {0xFEA9, 0xFEAA}, 'ذ': {0xFEAB, 0xFEAC},
	'ر': {0xFEAD, 0xFEAE}, 'ز': {0xFEAF, 0xFEB0}, 'ژ': {0xFB8A, 0xFB8B}, 'و': {0xFEED, 0xFEEE},
	'أ': {0xFE83, 0xFE84}, 'ؤ': {0xFE85, 0xFE86},
	'ب': {0xFE8F, 0xFE90, 0xFE91, 0xFE92}, 'پ': {0xFB56, 0xFB57, 0xFB58, 0xFB59},
	'ت': {0xFE95, 0xFE96, 0xFE97, 0xFE98}, 'ث': {0xFE99, 0xFE9A, 0xFE9B, 0xFE9C},
	'ج': {0xFE9D, 0xFE9E, 0xFE9F, 0xFEA0}, 'چ': {0xFB7A, 0xFB7B, 0xFB7C, 0xFB7D},
	'ح': {0xFEA1, 0xFEA2, 0xFEA3, 0xFEA4}, 'خ': {0xFEA5, 0xFEA6, 0xFEA7, 0xFEA8},
	'س': {0xFEB1, 0xFEB2, 0xFEB3, 0xFEB4}, 'ش': {0xFEB5, 0xFEB6, 0xFEB7, 0xFEB8},
	'ص': {0xFEB9, 0xFEBA, 0xFEBB, 0xFEBC}, 'ض': {0xFEBD, 0xFEBE, 0xFEBF, 0xFEC0},
	'ط': {0xFEC1, 0xFEC2, 0xFEC3, 0xFEC4}, 'ظ': {0xFEC5, 0xFEC6, 0xFEC7, 0xFEC8},
	'ع': {0xFEC9, 0xFECA, 0xFECB, 0xFECC}, 'غ': {0xFECD, 0xFECE, 0xFECF, 0xFED0},
	'ف': {0xFED1, 0xFED2, 0xFED3, 0xFED4}, 'ق': {0xFED5, 0xFED6, 0xFED7, 0xFED8},
	'ک': {0xFB8E, 0xFB8F, 0xFB90, 0xFB91}, 'گ': {0xFB92, 0xFB93, 0xFB94, 0xFB95},
	'ل': {0xFEDD, 0xFEDE, 0xFEDF, 0xFEE0}, 'م': {0xFEE1, 0xFEE2, 0xFEE3, 0xFEE4},
	'ن': {0xFEE5, 0xFEE6, 0xFEE7, 0xFEE8}, 'ه': {0xFEE9, 0xFEEA, 0xFEEB, 0xFEEC},
	'ی': {0xFBFC, 0xFBFD, 0xFBFE, 0xFBFF}, 'ئ': {0xFE89, 0xFE8A, 0xFE8B, 0xFE8C},
}
