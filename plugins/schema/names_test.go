package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/schema"
)

// Long names are refused at every level before hcldec compares them with the known names.
func TestCheck_LongNames(t *testing.T) {
	long := strings.Repeat("n", 1<<20)
	many := block{"image": "a"}
	for i := range 20_000 {
		many[fmt.Sprintf("retries_%d", i)] = 1
	}
	for name, tc := range map[string]struct {
		give block
		want string
	}{
		"argument": {block{"image": "a", long: 1}, `"nnn`},
		"in a block": {block{"image": "a", "mount": []any{block{"source": "x", long: 1}}},
			`config: "mount": a name has 1048576 bytes: the limit is 512`},
		"in a list of maps": {block{"image": "a", "mount": []block{{"source": "x", long: 1}}}, `config: "mount": a name has`},
		"in a map":          {block{"image": "a", "labels": block{long: "x"}}, `config: "labels": a name has`},
		"deep": {block{"image": "a", "mount": []any{block{"source": []any{block{"x": block{long: 1}}}}}},
			`config: "mount": a name has`},
		"many": {many, "config: the names of arguments, blocks and map keys have"},
	} {
		t.Run(name, func(t *testing.T) {
			got := schema.Check(tc.give, spec)
			if len(got) != 1 || !strings.Contains(got[0].String(), tc.want) || len(got[0].String()) > 300 {
				t.Errorf("Check() = %.400v, want one short fault with %q", got, tc.want)
			}
			if _, err := drivers.Decode(tc.give, spec); err == nil || len(err.Error()) > 300 {
				t.Errorf("Decode() = %.400v, want a short error", err)
			}
		})
	}
	labels := block{}
	for i := range 500 {
		labels[fmt.Sprintf("com.example.%03d.%s", i, strings.Repeat("l", 80))] = "x"
	}
	if got := schema.Check(block{"image": "a", "labels": labels}, spec); len(got) > 0 {
		t.Errorf("Check() of many labels = %v, want no fault", got)
	}
}
