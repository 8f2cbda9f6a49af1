package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPackagesWhoseTestsCompareWithGoldenValuesAreFound(t *testing.T) {
	list := "example/gotrainer/nn\t/x/nn\t[torch]\n" +
		"example/gotrainer/nn.test\t/x/nn\t[torch example/gotrainer/internal/golden example/gotrainer/nn]\n" +
		"example/gotrainer/optim/lr.test\t/x/optim/lr\t[example/gotrainer/internal/goldencount]\n" +
		"example/gotrainer/data.test\t/x/data\t[example/gotrainer/internal/goldenrod]\n" +
		"example/gotrainer/internal/golden.test\t/x/internal/golden\t[example/gotrainer/internal/golden]\n"
	assert.Equal(t, []suite{{name: "example/gotrainer/nn", folder: "/x/nn"},
		{name: "example/gotrainer/optim/lr", folder: "/x/optim/lr"}}, find(list))
}

func TestFailuresAreTheInnermostTests(t *testing.T) {
	out := "--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/one (0.00s)\n        --- FAIL: TestA/one/deep (0.00s)\n" +
		"    --- FAIL: TestA/two (0.00s)\n--- FAIL: TestAlone (0.00s)\n--- FAIL: TestAloneToo (0.00s)\nFAIL\n"
	assert.Equal(t, []string{"TestA/one/deep", "TestA/two", "TestAlone", "TestAloneToo"}, failures(out))
	assert.Empty(t, failures("ok\n"))
}

// The test binary is a shell script that prints its settings, counts four cases and fails.
func TestARowRunsTheSuitesUnderItsSettingsAndCounts(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "nn.test")
	require.NoError(t, os.WriteFile(binary, []byte(`#!/bin/sh
echo "$GOTRAINER_TEST_PINS in $PWD, $2"
cat >>"$GOTRAINER_GOLDEN_COUNT" <<END
{"Family":"f","Name":"equal","Test":"TestB","Compared":2,"Equal":2}
{"Family":"f","Name":"near","Test":"TestB","Compared":2,"Equal":1,"Reason":"another fingerprint"}
{"Family":"f","Name":"odd","Test":"TestA","Compared":2,"Equal":1}
{"Family":"f","Name":"far","Test":"TestFar","Compared":2,"Equal":1,"Failed":true}
END
echo "--- FAIL: TestFar (0.00s)"
exit 1
`), 0o755))
	x := row{name: "a", settings: "A=1 B="}.run(t.Context(), []suite{{name: "nn", folder: dir, binary: binary}},
		filepath.Join(dir, "logs"))
	assert.Equal(t, 1, x.bitwise)
	assert.Equal(t, 1, x.within)
	assert.Equal(t, []failure{{"nn", "TestFar", ""}, {"", "f odd differs, and its test says no reason", ""}}, x.failed)
	log, err := os.ReadFile(filepath.Join(dir, "logs", "nn.test.log"))
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(string(log), "A=1 B= in "+dir+", -test.run=^()"), "%s", log)
	require.Len(t, x.golden, 1)
	assert.Equal(t, []string{"TestA$", "TestB$", "TestFar$"}, x.golden[0].tests)
	row{}.run(t.Context(), x.golden, filepath.Join(dir, "again"))
	log, err = os.ReadFile(filepath.Join(dir, "again", "nn.test.log"))
	require.NoError(t, err)
	assert.Contains(t, string(log), "-test.run=^(TestA$|TestB$|TestFar$)\n")
}

func TestRowsOfAPathNeedTheFirst(t *testing.T) {
	first := func(rows string) bool { return choose(regexp.MustCompile(rows), true)[0] }
	assert.True(t, first("MKL"))
	assert.True(t, first(""))
	assert.False(t, first("without AVX2"))
	assert.Equal(t, recorded, rows[0])
	assert.False(t, choose(regexp.MustCompile("MKL"), false)[0], "where the tests are known")
}

func TestOnlyTestsThatCountedCasesRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "golden")
	suites := []suite{{name: "nn"}, {name: "optim"}}
	require.ErrorContains(t, narrow(suites, file), "it counts no case; run make test first")
	require.NoError(t, os.WriteFile(file, []byte(`{"Family":"f","Name":"x","Test":"TestB","Compared":1,"Equal":1}
{"Family":"f","Name":"y","Test":"TestA","Compared":1,"Equal":1}
{"Family":"f","Name":"z","Test":"TestB","Compared":1,"Equal":1}
`), 0o600))
	require.NoError(t, narrow(suites, file))
	assert.Equal(t, []suite{{name: "nn", tests: []string{"TestA$", "TestB$"}},
		{name: "optim", tests: []string{"TestA$", "TestB$"}}}, suites)
	require.NoError(t, os.WriteFile(file, []byte("{"), 0o600))
	require.ErrorContains(t, narrow(suites, file), file)
}

func TestASuiteThatDiesWithoutAWordHasFailed(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "nn.test")
	require.NoError(t, os.WriteFile(binary, []byte("#!/bin/sh\nkill -9 $$\n"), 0o755))
	x := row{}.run(t.Context(), []suite{{name: "nn", folder: dir, binary: binary}},
		filepath.Join(dir, "logs"))
	require.Len(t, x.failed, 2)
	assert.Contains(t, x.failed[0].test, "signal: killed")
	assert.Contains(t, x.failed[1].test, "no test counted a case")
}

func TestTheSummaryHasALineForEachTest(t *testing.T) {
	x := result{failed: []failure{{"nn", "TestA", "one"}, {"nn", "TestA", "two"}, {"nn", "TestB", ""},
		{"", "no test", ""}}}
	assert.Equal(t, []string{"nn TestA (2 subtests, the first is one)", "nn TestB", "no test"}, x.summary())
}

func TestEveryRowHasANameOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rows {
		assert.False(t, seen[r.name], r.name)
		seen[r.name] = true
		assert.Contains(t, []string{"", "AVX2", "AVX-512"}, r.needs, r.name)
	}
}
