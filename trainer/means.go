package trainer

// means are the values of [Report].Logged since the last row of the log.
type means map[string]Mean

func (m *means) add(report map[string]Mean) {
	if *m == nil && len(report) > 0 {
		*m = means{}
	}
	for name, r := range report {
		sum := (*m)[name]
		(*m)[name] = Mean{sum.Sum + r.Sum, sum.Count + r.Count}
	}
}

// scale multiplies all sums and counts by share.
func (m means) scale(share float64) {
	for name, v := range m {
		m[name] = Mean{v.Sum * share, v.Count * share}
	}
}

// into adds the means to a row of the log. It does not replace the row's own values.
func (m means) into(row Logs) {
	for name, v := range m {
		if _, taken := row[name]; !taken && v.Count > 0 {
			row[name] = v.Sum / v.Count
		}
	}
}

// state returns what a checkpoint stores.
func (m means) state() map[string][2]jsonFloat {
	s := make(map[string][2]jsonFloat, len(m))
	for name, v := range m {
		s[name] = [2]jsonFloat{jsonFloat(v.Sum), jsonFloat(v.Count)}
	}
	return s
}

func meansOf(state map[string][2]jsonFloat) (m means) {
	for name, v := range state {
		m.add(map[string]Mean{name: {float64(v[0]), float64(v[1])}})
	}
	return m
}
