package server_test

import (
	"os"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/rpc/meter"
)

// TestMethodsAreMeasured: every metric of an RPC in the list is that of a method.
func TestMethodsAreMeasured(t *testing.T) {
	text, err := os.ReadFile("../../e2e/testdata/metrics.tsv")
	if err != nil {
		t.Fatal(err)
	}
	s, _ := start(t, nil)
	has := map[string]bool{}
	for _, m := range s.Methods() {
		has["nomad.nomad."+meter.ServerName(m.Name)] = true
	}
	rows := 0
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if f[len(f)-1] != "rpc" {
			continue
		}
		if rows++; !has[f[0]] {
			t.Errorf("no method has the metric %s", f[0])
		}
	}
	if rows < 100 {
		t.Errorf("the list has %d metrics of RPCs", rows)
	}
}
