package identity_test

import (
	"flag"
	"testing"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

// parallel is the number of parallel tests, which mostly wait for periods of tokens. The flag -parallel takes precedence.
const parallel = "4"

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", parallel); err != nil {
		panic(err) // the flag does not exist
	}
	harness.Main(m, map[string]func([]string) int{"holder": holdToken, "spiffe": useSpiffe, "signalled": countAtSignal})
}
