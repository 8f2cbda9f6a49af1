package text

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/regularfile"
)

// An endless device and a pipe without a writer are rejected at once in place of any file of a
// tokenizer.
func TestATokenizerIsMadeOfRegularFiles(t *testing.T) {
	for _, name := range []string{tokenizerFile, vocabFile, configFile, specialTokensFile, addedTokensFile,
		bpeVocabFile, mergesFile} {
		for what, put := range map[string]func(path string) error{
			"/dev/zero": func(path string) error { return os.Symlink("/dev/zero", path) },
			"a pipe":    func(path string) error { return syscall.Mkfifo(path, 0o600) },
		} {
			t.Run(name+" is "+what, func(t *testing.T) {
				dir := t.TempDir()
				require.NoError(t, put(filepath.Join(dir, name)))
				switch name {
				case tokenizerFile, vocabFile:
				case bpeVocabFile, mergesFile:
					for file, content := range map[string]string{bpeVocabFile: "{}", mergesFile: "",
						configFile: `{"tokenizer_class": "RobertaTokenizer"}`} {
						if file != name {
							require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600))
						}
					}
				default:
					require.NoError(t, os.WriteFile(filepath.Join(dir, vocabFile), []byte("[UNK]\n"), 0o600))
				}
				_, err := LoadTokenizer(dir)
				require.ErrorIs(t, err, regularfile.ErrKind)
				require.ErrorContains(t, err, name)
			})
		}
	}
}
