package e2e

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m, nil) }

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Values[testKey{}] = t
			return setup(env)
		},
		Cmds:          commands,
		Condition:     condition,
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
	})
}
