//go:build !race

package parse_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/agent/parse"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// doubling is a text whose locals each hold the one before twice.
func doubling(first, twice string, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "locals {\n l0 = %s\n", first)
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, " l%d = %s\n", i, strings.ReplaceAll(twice, "L", fmt.Sprintf("local.l%d", i-1)))
	}
	return b.String() + fmt.Sprintf("}\njob \"a\" {\n region = \"${length(local.l%d)}\"\n}", n)
}

// bombs are short texts of large values.
func bombs() map[string]string {
	region := func(expr string) string { return "job \"a\" {\n region = " + expr + "\n}" }
	list := "[for a in range(1000) : [for b in range(1000) : [for c in range(1000) : %s]]]"
	deep := "x = { b = { c = { d = { e = { f = {} } } } } }"
	many := strings.ReplaceAll("{ "+strings.Repeat("X, ", 6)+"X }", "X", deep)
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		many = strings.Replace(many, "x =", name+" =", 1)
	}
	local := func(value, region string) string {
		return "locals {\n x = " + value + "\n}\n" + "job \"a\" {\n region = " + region + "\n}"
	}
	return map[string]string{
		"for":            region("length(" + fmt.Sprintf(list, "1") + ")"),
		"for strings":    region("length(" + fmt.Sprintf(list, `"${a}${b}${c}"`) + ")"),
		"for objects":    region(`length({for a in range(1000) : a => {for b in range(1000) : b => {for c in range(1000) : c => c}}})`),
		"deep objects":   region("length([for a in range(1000) : {for b in range(1000) : \"${b}\" => " + many + "}])"),
		"for tuples":     region("length(" + fmt.Sprintf(list, "[a, b, c, [], {}, [[]], null, true]") + ")"),
		"for groups":     region(`length({for a in range(1024) : "x" => [for b in range(1024) : [for c in range(1024) : []]]...})`),
		"for empty":      region("length(" + fmt.Sprintf(list, "[]") + ")"),
		"for heredoc":    region("length(" + fmt.Sprintf(list, "<<E\n%{ for d in range(1000) }${d}%{ endfor }\nE\n") + ")"),
		"template":       region(`"%{ for a in range(1000) }%{ for b in range(1000) }%{ for c in range(1000) }x%{ endfor }%{ endfor }%{ endfor }"`),
		"product":        region("length(setproduct(range(100), range(100), range(100), range(100)))"),
		"product of for": region("length([for i in range(1000) : setproduct(range(50), range(50))])"),
		"join":           region(`strlen(join(join("", [for i in range(1000) : "xxxxxxxxxx"]), range(1000)))`),
		"width":          region(`strlen(format("%999s%999s%999s", "x", join("", [for i in range(1000) : format("%999s", "x")]), "y"))`),
		"formatlist":     region(`length(formatlist("%999s", [for i in range(1024) : [for j in range(1024) : i]]))`),
		"list widths":    region(`length([for i in range(1024) : formatlist("%999s", range(1024))])`),
		"indent":         region(`strlen([for i in range(1024) : indent(999, join("\n", range(1024)))][0])`),
		"flatten":        region("length(flatten(" + fmt.Sprintf(list, "[c]") + "))"),
		"concat":         doubling("range(1000)", "concat(L, L)", 20),
		"tuples":         doubling("[1]", "[L, L]", 30),
		"objects":        doubling("{ a = 1 }", "{ a = L, b = L }", 30),
		"templates":      doubling(`["x"]`, `["${L[0]}${L[0]}"]`, 40),
		"encode":         doubling(`["x"]`, `[jsonencode(L)]`, 40),
		"yaml":           doubling(`["x"]`, `[yamlencode([L, L])]`, 30),
		"replace":        doubling(`["xx"]`, `[replace(L[0], "x", "xx")]`, 40),
		"chunks":         region("length([for i in range(1024) : chunklist(range(1024), 1)])"),
		"zipmap":         region("length([for i in range(1024) : zipmap([for j in range(1024) : \"${j}\"], range(1024))])"),
		"split":          region(`length([for i in range(1024) : split("", join("", range(1024)))])`),
		"merge":          region(`length([for i in range(1024) : merge({for j in range(1024) : j => i})])`),
		"splat": local("[for i in range(1024) : {a = [for j in range(1024) : {b = j}]}]",
			"\"${length([for k in range(1024) : local.x[*].a[*].b])}\""),
		"csv":     region(`length([for i in range(1024) : csvdecode(join("\n", range(1024)))])`),
		"json":    region(`length([for i in range(1024) : jsondecode(jsonencode(range(1024)))])`),
		"numbers": region("length([for i in range(1024) : [for j in range(1024) : pow(3, 2000)]])"),
		"try":     region("length([for i in range(1024) : try(nothing.x, [for j in range(1024) : can(i)])])"),
		"convert": region("length([for i in range(1024) : convert(range(1024), list(string))])"),
		"default": "variable \"x\" {\n default = " + fmt.Sprintf(list, "1") + "\n}\njob \"a\" {}",
		"validation": "variable \"x\" {\n default = 1\n validation {\n condition = length(" + fmt.Sprintf(list, "1") +
			") > 0\n error_message = \"x\"\n}\n}\njob \"a\" {}",
		"dynamic": "job \"a\" {\n dynamic \"group\" {\n for_each = range(1024)\n labels = [\"g${group.value}\"]\n content {\n" +
			" dynamic \"task\" {\n for_each = range(1024)\n labels = [\"t${task.value}\"]\n content {\n config {\n" +
			" x = [for i in range(1024) : i]\n}\n}\n}\n}\n}\n}",
		"meta":          "job \"a\" {\n meta = {for i in range(1024) : i => join(\"\", [for j in range(1024) : \"xxxxxxxxxxxxxxxx\"])}\n}",
		"tokens":        "job \"a\" {\n meta { x = [" + strings.Repeat("1,", 1<<19-100) + "] }\n}",
		"attributes":    "job \"a\" {\n meta {\n" + strings.Repeat("x=1\n", 1<<18-100) + "}\n}",
		"templates raw": region(`"` + strings.Repeat("${1}", 1<<18-100) + `"`),
		"lines":         region("<<E\n" + strings.Repeat("x\n", 1<<19-100) + "E\n"),
	}
}

// No text makes the process larger than its limit, or lets it run longer. The kernel's
// account of the largest process of all is what counts.
func TestBombs(t *testing.T) {
	testpace.Slow(t, "each text uses the limits of time and memory")
	p := parse.New()
	for name, text := range bombs() {
		t.Run(name, func(t *testing.T) {
			_, err := p.Parse(t.Context(), &api.JobsParseRequest{JobHCL: text})
			if err != nil && status(err) != http.StatusBadRequest {
				t.Errorf("Parse() = %v, want a job or status 400", err)
			}
			if err != nil {
				t.Logf("%.120s", err)
			}
		})
	}
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &used); err != nil {
		t.Fatal(err)
	}
	const most = 384 + 64 // the limit of data, and what is mapped of the program's file
	if got := used.Maxrss >> 10; got > most {
		t.Errorf("the largest process had %d MiB, want at most %d", got, most)
	} else {
		t.Logf("the largest process had %d MiB", got)
	}
}
