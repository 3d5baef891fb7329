package duties_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m, nil) }
