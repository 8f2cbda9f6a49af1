package expected

func readPeers(d *document) ([]Entry, error) { return nil, nil }
