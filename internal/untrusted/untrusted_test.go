package untrusted_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/untrusted"
)

// maxBytes is the maximum that one parse or match of untrusted text may allocate. The limits allow about half.
const maxBytes = 32 << 20

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// bombs are texts that cost much in a parser without limits.
func bombs() map[string]string {
	repeat := strings.Repeat
	out := map[string]string{
		"parentheses":       repeat("(", 30) + `Name == "a"` + repeat(")", 30),
		"open parentheses":  repeat("(", 4000),
		"200 parentheses":   repeat("(", 200) + `Name=="a"` + repeat(")", 200),
		"a megabyte":        repeat("(", 1<<20),
		"not":               repeat("not ", 1000) + "Name is empty",
		"braces":            repeat("any List as x { ", 300),
		"spaces":            repeat(" ", 4000),
		"index":             repeat("a[", 1000),
		"long literal":      `Name == "` + repeat("x", 1<<20) + `"`,
		"five nested loops": repeat("any List as x { ", 5) + `x == "a"` + repeat("}", 5),
		"regexp":            `Name matches "` + repeat("ab", 1500) + `"`,
		"repetition":        `Name matches "(` + repeat("ab", 1500) + `){1000}"`,
		"repetitions":       `Name matches "((a{10}){10}){10}" or Name matches "(abcdefgh){1000}"`,
		"classes":           `Name matches "` + repeat(`\pL`, 1000) + `"`,
		"many regexps":      strings.TrimSuffix(repeat(`Name matches "(abcdef){1000}" or `, 100), " or "),
		"operators":         strings.TrimSuffix(repeat(`Name == "a" or (Name == "b" and not Name == "c") or `, 70), " or "),
	}
	return out
}

type object struct {
	Name   string
	Next   *object
	Text   *string
	List   []string
	Map    map[string]string
	Any    any
	Number int
	Set    map[string]*object
}

func sample() *object {
	o := &object{Name: strings.Repeat("abcdef", 1000), Map: map[string]string{"a": "b"}, Set: map[string]*object{"nil": nil}}
	for i := range 500 {
		o.List = append(o.List, fmt.Sprint("element ", i))
	}
	return o
}

func TestFilter_BombsAreCheap(t *testing.T) {
	o := sample()
	for name, text := range bombs() {
		t.Run(name, func(t *testing.T) {
			var err error
			cost := allocated(func() { _, err = untrusted.ParseFilter(text) })
			if cost > maxBytes {
				t.Errorf("parsing allocates %d bytes, want at most %d (error %v)", cost, maxBytes, err)
			}
			if f, err := untrusted.ParseFilter(text); err == nil {
				if cost := allocated(func() { _, _ = f.Match(o) }); cost > maxBytes {
					t.Errorf("matching allocates %d bytes, want at most %d", cost, maxBytes)
				}
			}
		})
	}
}

func TestFilter_ReadsAreLimited(t *testing.T) {
	f, err := untrusted.ParseFilter(`any List as a { any List as b { any List as c { a == "x" or c == "y" }}}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Match(sample()); err == nil || !strings.Contains(err.Error(), "reads too many") {
		t.Errorf("Match() of nested loops = %v, want the limit on values", err)
	}
}

// TestFilter_LongLists checks that filters of usual size work in the lists of a large cluster. The reads of all
// objects of a list are added.
func TestFilter_LongLists(t *testing.T) {
	attributes := map[string]string{"cpu.arch": "amd64"}
	for i := range 200 {
		attributes[fmt.Sprint("attribute.", i)] = "value"
	}
	type task struct {
		Driver string
		Env    map[string]string
		Config map[string]any
	}
	type group struct{ Tasks []*task }
	config := map[string]any{"image": "registry.example.com/team/app:v1.2.3"}
	one := &task{Driver: "docker", Env: map[string]string{"A": "b"}, Config: config}
	groups := []*group{{[]*task{one, one, one}}, {[]*task{one, one, one}}, {[]*task{one, one, one}}}
	for name, tc := range map[string]struct {
		text   string
		object any
	}{
		"attributes of nodes": {strings.TrimSuffix(strings.Repeat(`Attributes["cpu.arch"] == "amd64" and `, 8), " and "),
			struct{ Attributes map[string]string }{attributes}},
		"tasks of jobs": {`any TaskGroups as g { any g.Tasks as t { t.Config.image matches "app:v1.2.3x" or t.Driver == "podman" or t.Env.A == "x" }}`,
			struct{ TaskGroups []*group }{groups}},
		"30 conditions": {strings.TrimSuffix(strings.Repeat(`ID != "x" and `, 30), " and "), struct{ ID string }{"web"}},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := untrusted.ParseFilter(tc.text)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 20_000 {
				if _, err := f.Match(tc.object); err != nil {
					t.Fatalf("object %d: %v", i, err)
				}
			}
		})
	}
}

func TestFilter_Usual(t *testing.T) {
	for text, want := range map[string]bool{
		`Name matches "^abc" and not (Number != 0)`:                        true,
		`"element 7" in List`:                                              true,
		`any List as x { x contains "499" }`:                               true,
		`Map.a == "b" and Map.c is empty`:                                  true,
		`((Name is empty or Number == 0) and (Next is nil))`:               true,
		`((((Number == 1))))`:                                              false,
		`Name in "` + "abc" + `" or Number == 7`:                           false,
		`any Map as k, v { k == "a" and v == "b" }`:                        true,
		strings.TrimSuffix(strings.Repeat(`Number == 1 or `, 200), " or "): false,
	} {
		f, err := untrusted.ParseFilter(text)
		if err != nil {
			if !strings.Contains(text, ` in "`) {
				t.Errorf("ParseFilter(%.80s): %v", text, err)
			}
			continue
		}
		if got, err := f.Match(sample()); err != nil || got != want {
			t.Errorf("%.80s = %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestFilter_PanicsAreErrors(t *testing.T) {
	for _, text := range []string{`Next matches "a"`, `Text not matches "a"`, `Any matches "a"`, `Set.nil matches "a"`, `"a" in Any`} {
		f, err := untrusted.ParseFilter(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if _, err := f.Match(sample()); err == nil {
			t.Errorf("%s: no error", text)
		} else if strings.Contains(err.Error(), "goroutine ") {
			t.Errorf("%s: the error has a stack: %v", text, err)
		}
	}
}

// randomFilter returns a filter of about n parts.
func randomFilter(r *rand.Rand, n int) string {
	words := []string{"(", ")", "Name", "Next.Name", "Text", "List", "Map.a", "Any", "Number", "Set", " == ", " != ", " matches ",
		" not matches ",
		" is empty", " is not nil", " in ", " not in ", " contains ", " and ", " or ", "not ", `"a"`, `"(a{9}){9}"`, "7", "any List as x { ",
		"all Map as k, v { ",
		"x", "v", " }", "[", `"/Name"`, "`", "\"", "-", ".", "\x00", "é"}
	var b strings.Builder
	for range n {
		b.WriteString(words[r.IntN(len(words))])
	}
	return b.String()
}

// randomValid returns a filter that parses, mostly.
func randomValid(r *rand.Rand, depth int) string {
	fields := []string{"Name", "Next", "Next.Name", "Text", "List", "Map", "Map.a", "Any", "Number", "Set", "Set.nil", "List.3", "x", "v"}
	field := fields[r.IntN(len(fields))]
	if depth == 0 {
		ends := []string{` == "a"`, ` != 7`, ` matches "(ab){9}"`, ` not matches "."`, " is empty", " is not nil", ` contains "a"`}
		if r.IntN(5) == 0 {
			return `"a" in ` + field
		}
		return field + ends[r.IntN(len(ends))]
	}
	switch r.IntN(5) {
	case 0:
		return "(" + randomValid(r, depth-1) + ")"
	case 1:
		return "not " + randomValid(r, depth-1)
	case 2:
		return "any " + field + " as x { " + randomValid(r, depth-1) + " }"
	case 3:
		return randomValid(r, depth-1) + " and " + randomValid(r, depth-1)
	}
	return randomValid(r, depth-1) + " or " + randomValid(r, depth-1)
}

// TestFilter_RandomIsCheap checks that no filter panics, and that none allocates much.
func TestFilter_RandomIsCheap(t *testing.T) {
	r := rand.New(rand.NewPCG(34, 12))
	o := sample()
	o.List = o.List[:20]
	for i := range 4000 {
		text := randomFilter(r, 1+r.IntN(60))
		if i%2 == 0 {
			text = randomValid(r, r.IntN(6))
		}
		cost := allocated(func() {
			if f, err := untrusted.ParseFilter(text); err == nil {
				_, _ = f.Match(o)
			}
		})
		if cost > maxBytes {
			t.Errorf("%q allocates %d bytes, want at most %d", text, cost, maxBytes)
		}
	}
}

func FuzzFilter(f *testing.F) {
	for _, text := range bombs() {
		f.Add(text)
	}
	o := sample()
	o.List = o.List[:20]
	f.Fuzz(func(t *testing.T, text string) {
		cost := allocated(func() {
			if p, err := untrusted.ParseFilter(text); err == nil {
				_, _ = p.Match(o)
			}
		})
		if cost > 4*maxBytes { // the fuzzer itself allocates
			t.Errorf("%q allocates %d bytes", text, cost)
		}
	})
}

func TestRegexp(t *testing.T) {
	for text, ok := range map[string]bool{
		`^web-[0-9]{1,3}\.example\.com$`:             true,
		`\w{1,128}`:                                  true,
		`(?i)^(a|b|c)+$`:                             true,
		strings.Repeat("host-1|", 500):               true,
		strings.Repeat("a", 4097):                    false,
		"(" + strings.Repeat("ab", 1500) + "){1000}": false,
		`((a{10}){10}){101}`:                         false,
		`(`:                                          false,
		`[\pL\pN]{1000}`:                             false,
	} {
		var err error
		cost := allocated(func() { _, err = untrusted.CompileRegexp(text) })
		if (err == nil) != ok || cost > maxBytes {
			t.Errorf("CompileRegexp(%.40q) allocates %d, %v, want ok = %v", text, cost, err, ok)
		}
	}
}

func TestVersions(t *testing.T) {
	long := "1" + strings.Repeat(".1", 300)
	for name, f := range map[string]func(string) (any, error){
		"version": func(s string) (any, error) { return untrusted.Version(s) },
		"semver":  func(s string) (any, error) { return untrusted.Semver(s) },
		"range":   func(s string) (any, error) { return untrusted.VersionRange(s) },
	} {
		if v, err := f("1.2.3"); err != nil || reflect.ValueOf(v).IsZero() {
			t.Errorf("%s of 1.2.3 = %v, %v", name, v, err)
		}
		if _, err := f(strings.Repeat(long+",", 20)); err == nil || !strings.Contains(err.Error(), "limit") {
			t.Errorf("%s of a long text: %v, want a limit", name, err)
		}
	}
	if _, err := untrusted.VersionRange(strings.Repeat(">1,", 128) + ">1"); err == nil {
		t.Error("a range of 129 parts has no error")
	}
}
