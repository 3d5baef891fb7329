package services

import (
	"errors"
	"fmt"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/catalog"
)

func three() []*catalog.Registration {
	var out []*catalog.Registration
	for i := range 3 {
		out = append(out, &catalog.Registration{ID: fmt.Sprint("r", i), ServiceName: "db", Namespace: "default", AllocID: fmt.Sprint("a", i),
			Tags: []string{"x", "y"}, Address: "10.0.0.1", Port: 8080 + i})
	}
	return out
}

// The expected hashes come from another implementation: printf of the fields | sha256sum.
func TestHashOfRegistration(t *testing.T) {
	const want = "3a3d9b3c21742216597fd9cb3f748926d0513b4c284a1bbbd46ff907e2bc63c0"
	if got := hashFor(three()[0], "key"); got != want {
		t.Errorf("hashFor() = %s, want %s", got, want)
	}
}

func TestChoose(t *testing.T) {
	ids := func(text string) string {
		pick, err := parseChoice(text)
		if err != nil {
			t.Fatal(err)
		}
		out := []string{}
		for _, r := range pick(three()) {
			out = append(out, r.ID)
		}
		return fmt.Sprint(out)
	}
	if got := ids(""); got != "[r0 r1 r2]" {
		t.Errorf("without a choice: %s", got)
	}
	if got := ids("0|a"); got != "[]" {
		t.Errorf("none: %s", got)
	}
	if one, two, all := ids("1|a"), ids("2|a"), ids("9|a"); two[:3] != one[:3] || len(all) != len("[r0 r1 r2]") || all[:6] != two[:6] {
		t.Errorf("one, two and all for the same key: %s, %s, %s", one, two, all)
	}
	first := map[string]bool{}
	for i := range 50 {
		first[ids(fmt.Sprint("1|", i))] = true
	}
	if len(first) != 3 {
		t.Errorf("50 keys choose %d of 3 registrations", len(first))
	}
}

func TestBadChoices(t *testing.T) {
	for _, text := range []string{"1", "|", "|key", "x|key", "-1|key", "1.5|key", "1|a|b", "99999999999999999999|key"} {
		var coded *apierror.Coded
		if _, err := parseChoice(text); !errors.As(err, &coded) || coded.Code != 400 {
			t.Errorf("parseChoice(%q) = %v, want an error with the code 400", text, err)
		}
	}
}
