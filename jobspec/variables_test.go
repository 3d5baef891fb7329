package jobspec_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/jobspec"
)

const withVariables = `
variable "text" { default = "default" }
variable "number" { type = number
  default = 1 }
variable "list" { type = list(string)
  default = ["a"] }
variable "free" { default = null }
job "a" {
  meta = { text = var.text, number = var.number, list = join(",", var.list), free = coalesce(var.free, "none") }
}`

func TestVariableSources(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	one := file("one.hcl", "text = \"file1\"\nnumber = 10\n")
	two := file("two.json", `{"text": "file2", "list": ["x", "y"]}`)
	for _, c := range []struct {
		name string
		cfg  jobspec.Config
		want map[string]string
	}{
		{"defaults", jobspec.Config{}, map[string]string{"text": "default", "number": "1", "list": "a", "free": "none"}},
		{"environment", jobspec.Config{Env: []string{"NOMAD_VAR_text=env", "NOMAD_VAR_unknown=1", "HOME=/", `NOMAD_VAR_list=["e"]`}},
			map[string]string{"text": "env", "list": "e"}},
		{"files over environment", jobspec.Config{Env: []string{"NOMAD_VAR_text=env"}, VarFiles: []string{one}},
			map[string]string{"text": "file1", "number": "10"}},
		{"later file wins", jobspec.Config{VarFiles: []string{one, two}}, map[string]string{"text": "file2", "number": "10", "list": "x,y"}},
		{"content", jobspec.Config{VarContent: "text = \"content\""}, map[string]string{"text": "content"}},
		{"flags over all", jobspec.Config{VarFiles: []string{one}, Vars: []string{"text=a=b", "number=7", `list=["p","q"]`, "free=raw"}},
			map[string]string{"text": "a=b", "number": "7", "list": "p,q", "free": "raw"}},
		{"undeclared when not strict", jobspec.Config{Vars: []string{"nobody=1"}}, map[string]string{"text": "default"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.cfg.Source, c.cfg.Filename = lines(withVariables), "v.hcl"
			job, err := jobspec.Parse(c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			for k, want := range c.want {
				if got := job.Meta[k]; got != want {
					t.Errorf("%s = %q, want %q", k, got, want)
				}
			}
		})
	}
}

func TestVariableErrors(t *testing.T) {
	for _, c := range []struct {
		name, src string
		cfg       jobspec.Config
		want      string
	}{
		{"missing value", `variable "x" {}
job "a" {}`, jobspec.Config{}, `v.hcl:1:1: Missing value for variable: The variable "x" has no default`},
		{"undeclared flag", `job "a" {}`, jobspec.Config{Strict: true, Vars: []string{"y=1"}},
			`-var y: Undefined variable: The job file declares no variable "y"`},
		{"flag without value", `job "a" {}`, jobspec.Config{Vars: []string{"y"}}, `"y" is not of the form name=value`},
		{"wrong type", `variable "n" { type = number }
job "a" {}`, jobspec.Config{Vars: []string{"n=many"}}, `-var n: Invalid value for variable: The variable "n" is a number`},
		{"block in file", `job "a" {}`, jobspec.Config{VarContent: "variable \"x\" {\n}"}, "variables:1:1: Unexpected block"},
		{"twice", `variable "x" { default = 1 }
variable "x" { default = 2 }
job "a" {}`, jobspec.Config{}, "declared already at v.hcl:1"},
		{"default refers", `variable "x" { default = local.y }
job "a" {}`, jobspec.Config{}, "Variables not allowed"},
		{"validation", `variable "x" { default = 3
validation { condition = var.x > 5
error_message = "too small" } }
job "a" {}`, jobspec.Config{}, "x: too small"},
		{"validation of another", `variable "y" { default = 3 }
variable "x" { default = 3
validation { condition = var.y > 5
error_message = "too small" } }
job "a" {}`, jobspec.Config{}, "does not have an attribute named \"y\""},
		{"missing file", `job "a" {}`, jobspec.Config{VarFiles: []string{"/nonexistent/x"}}, "Cannot read variable file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.cfg.Source, c.cfg.Filename = lines(c.src), "v.hcl"
			if _, err := jobspec.Parse(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), ":0:0") {
				t.Errorf("Parse() = %v, want %q", err, c.want)
			}
		})
	}
}

func TestLegacyVariables(t *testing.T) {
	job, err := jobspec.Parse(jobspec.Config{Source: lines(`variables { x = "1" }
job "${x}" {}`), Vars: []string{"x=2"}})
	if err == nil {
		t.Fatalf("Parse() with a template as label = %v, want an error", *job.ID)
	}
	job, err = jobspec.Parse(jobspec.Config{Source: lines(`variables { x = "1" }
job "a" { region = var.x }`), Vars: []string{"x=2"}})
	if err != nil || *job.Region != "2" {
		t.Fatalf("Parse() = %+v, %v", job, err)
	}
}

func TestLocals(t *testing.T) {
	job := parse(t, `
variable "env" { default = "dev" }
locals { b = "${local.a}-2"
 runtime = "${attr.x}" }
locals { a = upper(var.env)
 all = local.c.d
 c = { d = "e" } }
job "j" { meta = { b = local.b, r = local.runtime, all = local.all } }`)
	for k, want := range map[string]string{"b": "DEV-2", "r": "${attr.x}", "all": "e"} {
		if got := job.Meta[k]; got != want {
			t.Errorf("%s = %q, want %q", k, got, want)
		}
	}
	for src, want := range map[string]string{
		"locals {\na = local.b\nb = local.a\n}\njob \"j\" {}":  "Circular local",
		"locals {\na = local\n}\njob \"j\" {}":                 "Circular local",
		"locals {\na = 1\n}\nlocals {\na = 2\n}\njob \"j\" {}": "defined already",
		"locals {\na = local.nobody\n}\njob \"j\" {}":          "does not have an attribute named \"nobody\"",
		"locals {\nx {\n}\n}\njob \"j\" {}":                    "has only name = value pairs",
	} {
		if _, err := jobspec.Parse(jobspec.Config{Source: []byte(src)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", src, err, want)
		}
	}
}

func TestFunctions(t *testing.T) {
	for expr, want := range map[string]string{
		`abs(-1)`: "1", `base64encode("a")`: "YQ==", `can(var.x)`: "false", `ceil(1.2)`: "2", `chomp("a\n")`: "a",
		`cidrhost("10.0.0.0/8", 3)`: "10.0.0.3", `coalesce(null, "b")`: "b", `join(",", compact(["a", "", "b"]))`: "a,b",
		`format("%03d", 7)`: "007", `jsonencode({ a = 1 })`: `{"a":1}`, `jsondecode("[1, 2]")[1]`: "2", `length([1, 2])`: "2",
		`lower("A")`: "a", `max(1, 3)`: "3", `md5("a")`: "0cc175b9c0f1b6a831c399e269772661", `regex_replace("abc", "b.", "x")`: "ax",
		`reverse("abc")`: "cba", `strrev("abc")`: "cba", `strlen("abc")`: "3", `sha1("")`: "da39a3ee5e6b4b0d3255bfef95601890afd80709",
		`split(",", "a,b")[1]`: "b", `substr("abc", 1, 1)`: "b", `timeadd("2020-01-01T00:00:00Z", "1h")`: "2020-01-01T01:00:00Z",
		`try(nobody.x, "y")`: "${nobody.x}", `try(var.nobody, "y")`: "y", `urlencode("a b")`: "a+b", `uuidv5("dns", "x.org")`: "3f1a2e0c",
		`yamldecode("a: [1, 2]").a[0]`: "1", `zipmap(["a"], ["b"]).a`: "b", `indent(1, "a\nb")`: "a\n b", `parseint("ff", 16)`: "255",
		`"%{ if true }yes%{ else }no%{ endif }"`: "yes", `"%{ for x in ["a", "b"] }${x};%{ endfor }"`: "a;b;",
		`[for k, v in { a = "b" } : "${k}${v}"][0]`: "ab",
		`([{ n = "x" }, { n = "y" }][*].n)[1]`:      "y",
	} {
		job, err := jobspec.Parse(jobspec.Config{Source: []byte("job \"a\" {\nregion = " + expr + "\n}")})
		if err != nil {
			t.Errorf("%s: %v", expr, err)
		} else if got := *job.Region; got != want && !(strings.HasPrefix(expr, "uuidv5") && len(got) == 36) {
			t.Errorf("%s = %q, want %q", expr, got, want)
		}
	}
}

// TestFileFunctions checks that file functions are available only with AllowFS.
func TestFileFunctions(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "motd"), []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := jobspec.Config{Filename: filepath.Join(dir, "a.hcl"), Source: []byte("job \"a\" {\nregion = file(\"motd\")\n}")}
	if _, err := jobspec.Parse(cfg); err == nil || !strings.Contains(err.Error(), "not available when a server parses") {
		t.Errorf("server: error %v", err)
	}
	cfg.AllowFS = true
	job, err := jobspec.Parse(cfg)
	if err != nil || *job.Region != "hello" {
		t.Errorf("Parse() = %+v, %v", job, err)
	}
}
