package jobspec_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/jobspec"
)

// TestLongStrings checks that a task can have a long string.
func TestLongStrings(t *testing.T) {
	long := strings.Repeat("0123456789abcde ", 60<<10)
	lines := strings.Repeat(strings.Repeat("0123456789abcde ", 16)+"\n", 1<<10)
	for name, expr := range map[string]string{
		"quoted":  `"` + long + `"`,
		"heredoc": "<<EOT\n" + lines + "EOT",
		"flush":   "<<-EOT\n" + lines + "EOT",
		"escapes": `"` + strings.Repeat(`\"`, 1<<18) + `"`,
	} {
		t.Run(name, func(t *testing.T) {
			job := mustParse(t, "job \"a\" {\n group \"g\" {\n task \"t\" {\n config {\n text = "+expr+"\n}\n}\n}\n}")
			if got := len(job.TaskGroups[0].Tasks[0].Config["text"].(string)); got < 1<<18 {
				t.Errorf("text has %d bytes", got)
			}
		})
	}
}

// TestTooLargeHCL checks the size limit. The parser's time is quadratic in the lines of a heredoc.
func TestTooLargeHCL(t *testing.T) {
	large := strings.Repeat("#", 1<<20)
	_, err := parseText(large + "\njob \"a\" {}")
	if err == nil || !strings.HasPrefix(err.Error(), "a.hcl:1:1: Too much HCL") || !strings.Contains(err.Error(), "at most 1048576") {
		t.Errorf("Parse() of a large job file = %v, want an error with the limit", err)
	}
	_, err = jobspec.Parse(jobspec.Config{Filename: "a.hcl", Source: []byte("job \"a\" {}"), VarContent: large + "\nx = 1"})
	if err == nil || !strings.Contains(err.Error(), "Too much HCL") {
		t.Errorf("Parse() with a large variable file = %v, want an error with the limit", err)
	}
	_, err = jobspec.Parse(jobspec.Config{Filename: "a.hcl", Source: []byte("variable \"x\" {\n type = bool\n}\njob \"a\" {}"),
		Vars: []string{"x=#" + large}})
	if err == nil || !strings.Contains(err.Error(), "Too much HCL") {
		t.Errorf("Parse() with a large variable = %v, want an error with the limit", err)
	}
	job, err := parseText(large[1<<7:] + "\njob \"a\" {}")
	if err != nil || *job.ID != "a" {
		t.Errorf("Parse() of a file below the limit = %v", err)
	}
}

// TestHostileInput parses files that would take minutes, or exhaust the memory, without limits.
func TestHostileInput(t *testing.T) {
	bomb := "locals {\n l0 = \"xxxxxxxxxx\"\n"
	for i := 1; i < 30; i++ {
		bomb += fmt.Sprintf(" l%d = \"${local.l%d}${local.l%d}${local.l%d}\"\n", i, i-1, i-1, i-1)
	}
	numbers := "locals {\n l0 = 1e300\n"
	for i := 1; i < 40; i++ {
		numbers += fmt.Sprintf(" l%d = local.l%d * local.l%d\n", i, i-1, i-1)
	}
	region := func(expr string) string { return "job \"a\" {\n region = " + expr + "\n}" }
	for name, src := range map[string]string{
		"parentheses":   region(strings.Repeat("(", 1<<17)),
		"lists":         region(strings.Repeat("[", 1<<17)),
		"braces":        strings.Repeat("a {\n", 1<<18),
		"templates":     region(strings.Repeat(`"${`, 1<<18)),
		"minus":         region(strings.Repeat("-", 1<<17) + "1"),
		"not":           region(strings.Repeat("!", 1<<17) + "true"),
		"conditionals":  region(strings.Repeat("true ? 1 : ", 1<<14) + "1"),
		"sums":          region(strings.Repeat("1 + ", 1<<15) + "1"),
		"indexes":       region("local.x" + strings.Repeat("[0]", 1<<15)),
		"splats":        region("local.x" + strings.Repeat(".*", 1<<18)),
		"ifs":           region(`"` + strings.Repeat("%{ if true }", 1<<17) + `"`),
		"huge number":   region(`"${1e2000000000}"`),
		"strings":       bomb + "}\n" + region("local.l29"),
		"numbers":       numbers + "}\n" + region("\"${local.l39}\""),
		"loops":         region("join(\"\", [for a in range(1000) : join(\"\", [for b in range(1000) : join(\"\", [for c in range(1000) : \"x\"])])])"),
		"product":       region("length(setproduct(range(1000), range(1000), range(1000)))"),
		"padding":       region(`format("%1000000000s", "x")`),
		"star padding":  region(`format("%*s", 1000000000, "x")`),
		"indent":        region(`indent(1000000000, "a\nb")`),
		"join":          region(`join("` + strings.Repeat("x", 1<<20) + `", range(1000))`),
		"replace":       region(`replace("` + strings.Repeat("x", 1<<20) + `", "x", "` + strings.Repeat("y", 1<<20) + `")`),
		"bcrypt":        region(`bcrypt("x", 31)`),
		"yaml aliases":  region(`length(yamldecode("a: &a [x,x,x]\nb: &b [*a,*a,*a]\nc: &c [*b,*b,*b]\nd: &d [*c,*c,*c]\ne: &e [*d,*d,*d]"))`),
		"blocks":        "job \"a\" {\n dynamic \"group\" {\n for_each = range(1000)\n labels = [\"x${group.value}\"]\n content {\n dynamic \"task\" {\n for_each = range(1000)\n labels = [\"y\"]\n content {}\n}\n}\n}\n}",
		"many errors":   "job \"a\" {\n" + strings.Repeat("x {}\n", 1<<14) + "}",
		"locals":        "locals {\n a = " + strings.Repeat("local.a + ", 4000) + "1\n}\njob \"a\" {}",
		"too large":     strings.Repeat("#", 9<<20),
		"binary":        "\x00\xff\xfe job \"a\" {}",
		"label":         "job \"" + strings.Repeat("${", 1000) + "\" {}",
		"null elements": region(`[null]`),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := jobspec.Parse(jobspec.Config{Filename: "a.hcl", Source: []byte(src)})
			if err == nil {
				t.Fatal("no error")
			}
			if n := len(err.Error()); n > 64<<10 {
				t.Errorf("error text has %d bytes", n)
			}
		})
	}
}

// FuzzParse checks that Parse returns either a job or an error, and does not panic.
func FuzzParse(f *testing.F) {
	f.Add(withVariables)
	f.Add("job \"a\" {\n group \"g\" {\n task \"t\" {\n config {\n x = [for a in b : \"${a}\"]\n}\n}\n}\n}")
	f.Add(`{"Job": {"ID": "a", "TaskGroups": [null, {"Tasks": [null, {"Templates": [null]}]}]}}`)
	f.Fuzz(func(t *testing.T, src string) {
		job, err := jobspec.Parse(jobspec.Config{Filename: "a.hcl", Source: []byte(src)})
		if (job == nil) == (err == nil) {
			t.Fatalf("job %v, error %v", job, err)
		}
		if job != nil {
			job.Canonicalize()
		}
	})
}
