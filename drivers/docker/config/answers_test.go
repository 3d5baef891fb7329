package config

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"
)

// optionsOf returns the names of all options of a schema.
func optionsOf(t *testing.T, prefix string, spec hcldec.Spec) (out []string) {
	t.Helper()
	switch s := spec.(type) {
	case hcldec.ObjectSpec:
		for _, name := range slices.Sorted(maps.Keys(s)) {
			out = append(out, optionsOf(t, prefix+"."+name, s[name])...)
		}
	case *hcldec.AttrSpec:
		out = append(out, strings.TrimPrefix(prefix, "."))
	case *hcldec.BlockSpec:
		out = optionsOf(t, prefix, s.Nested)
	case *hcldec.BlockListSpec:
		out = optionsOf(t, prefix, s.Nested)
	default:
		t.Fatalf("unknown kind of schema %T at %s", spec, prefix)
	}
	return out
}

// Every option of a task has exactly one answer, and no answer is of an option that does not exist.
func TestAnswers(t *testing.T) {
	have := map[string]answer{}
	for _, a := range answers {
		if _, twice := have[a.option]; twice {
			t.Errorf("%s has two answers", a.option)
		}
		if (a.needs != nil) != (a.verdict == byPrivilege) && !strings.HasPrefix(a.note, "see ") {
			t.Errorf("%s: verdict %q, checked: %t", a.option, a.verdict, a.needs != nil)
		}
		if _, no := unserved[a.option]; no != (a.verdict == isRefused) {
			t.Errorf("%s: verdict %q, refused: %t", a.option, a.verdict, no)
		}
		have[a.option] = a
	}
	for _, name := range optionsOf(t, "", TaskSpec) {
		name = strings.Replace(name, "mounts.", "mount.", 1) // two names of one block
		if name == "devices" || name == "mounts" {
			continue
		}
		if _, ok := have[name]; !ok {
			t.Errorf("the option %s has no answer: add a row to answers and to docker.md", name)
		}
		have[name] = answer{option: "seen"}
	}
	for name, a := range have {
		if a.option != "seen" && name != "devices" {
			t.Errorf("the answer for %s is of no option", name)
		}
	}
}

// The page has the table of answers.
func TestAnswersPage(t *testing.T) {
	page, err := os.ReadFile("../../../website/content/docs/drivers/docker.md")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, v := range []verdict{byPrivilege, byOperator, isLimited, isSafe, isRefused} {
		var plain []string
		for _, a := range answers {
			switch {
			case a.verdict != v || strings.HasPrefix(a.note, "see `devices`"):
			case a.note == "":
				plain = append(plain, "`"+a.option+"`")
			default:
				want = append(want, fmt.Sprintf("| `%s` | %s | %s |", a.option, v, a.note))
			}
		}
		slices.Sort(plain)
		for list := range slices.Chunk(plain, 3) {
			want = append(want, fmt.Sprintf("| %s | %s | |", strings.Join(list, ", "), v))
		}
	}
	_, table, _ := strings.Cut(string(page), "| option | answer | details |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	if got := strings.Split(table, "\n"); !slices.Equal(got, want) {
		t.Errorf("the table of docker.md is\n%s\nwant\n%s", table, strings.Join(want, "\n"))
	}
}

// An option that a later schema adds has no answer: the walk finds it, also in a block.
func TestAnswersWalk(t *testing.T) {
	spec := blocks{"x": block("x", object(map[string]cty.Type{"new": cty.String}))}.with(object(map[string]cty.Type{"other": cty.Bool}))
	if got := optionsOf(t, "", spec); !slices.Equal(got, []string{"other", "x.new"}) {
		t.Errorf("options = %q", got)
	}
}
