package acl_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/acl"
)

// everything has each kind of block and each key.
const everything = `
# the rules of a team
namespace "default" { policy = "read" }
namespace "prod-*" {
  policy       = "scale"
  capabilities = ["submit-job", "alloc-exec",] // and more
  variables {
    path "app/*" { capabilities = ["read", "write", "destroy"] }
    path "app/root" { capabilities = ["deny"] }
  }
}
node_pool "gpu_*" { policy = "write" }
node_pool "all" { capabilities = ["read"] }
host_volume "data-*" { capabilities = ["mount-readonly"] }
/* those without a name */
node { policy = "read" }
agent { policy = "write" }
operator {
  policy = "read"
  capabilities = ["snapshot-save"]
}
quota { policy = "read" }
plugin { policy = "list" }
sentinel { policy = "read" }
`

const everythingJSON = `{
  "namespace": [
    {"default": {"policy": "read"}},
    {"prod-*": [{
      "policy": "scale", "capabilities": ["submit-job", "alloc-exec"],
      "variables": {"path": {"app/*": {"capabilities": ["read", "write", "destroy"]}, "app/root": {"capabilities": ["deny"]}}}
    }]}
  ],
  "node_pool": {"gpu_*": {"policy": "write"}, "all": {"capabilities": ["read"]}},
  "host_volume": {"data-*": {"capabilities": ["mount-readonly"]}},
  "node": {"policy": "read"}, "agent": [{"policy": "write"}],
  "operator": {"policy": "read", "capabilities": ["snapshot-save"]},
  "quota": {"policy": "read"}, "plugin": {"policy": "list"}, "sentinel": {"policy": "read"}
}`

// questions returns a question for each right of each kind.
func questions(namespaces, names []string, w *acl.Workload) []acl.Question {
	var all []acl.Question
	add := func(kind acl.Kind, namespace, name string, words ...string) {
		for _, word := range words {
			all = append(all, acl.Question{Kind: kind, Namespace: namespace, Name: name, Rights: []string{word}, Workload: w})
		}
	}
	for _, ns := range namespaces {
		add(acl.Namespaces, "", ns, namespaceCapabilities...)
		for _, name := range names {
			add(acl.Variables, ns, name, "list", "read", "write", "destroy")
		}
	}
	for _, name := range names {
		add(acl.NodePools, "", name, "read", "write", "delete")
		add(acl.HostVolumes, "", name, "mount-readonly", "mount-readwrite")
	}
	for _, kind := range []acl.Kind{acl.Nodes, acl.Agents, acl.Quotas, acl.Sentinels} {
		add(kind, "", "", "read", "write")
	}
	add(acl.Plugins, "", "", "list", "read", "write")
	add(acl.Operators, "", "", "read", "write", "snapshot-save", "license-read", "keyring-rotate", "keyring-read", "keyring-delete")
	return all
}

func parse(t testing.TB, src string) *acl.Policy {
	t.Helper()
	p, err := acl.Parse(src)
	if err != nil {
		t.Fatalf("Parse(%s) = %v", src, err)
	}
	return p
}

func TestHCLAndJSONAreEquivalent(t *testing.T) {
	hcl, json := acl.New(false, parse(t, everything)), acl.New(false, parse(t, everythingJSON))
	allowed := 0
	for _, q := range questions([]string{"default", "prod-1", "dev"}, []string{"app/x", "app/root", "gpu_1", "all", "data-1"}, nil) {
		h, j := hcl.Explain(q), json.Explain(q)
		if h.Allowed != j.Allowed || h.Reason != j.Reason {
			t.Errorf("%s\n%s", h, j)
		}
		if h.Allowed {
			allowed++
		}
	}
	if allowed < 30 {
		t.Errorf("%d questions are allowed, want at least 30", allowed)
	}
}

func TestParseErrors(t *testing.T) {
	ns := func(body string) string { return "namespace \"default\" {\n  " + body + "\n}" }
	tests := []struct{ name, src, want string }{
		{"nothing", "", "line 1, column 1: the policy is empty"},
		{"blank", " \n\t\n", "the policy is empty"},
		{"comment alone", "# nothing", "the policy is empty"},
		{"empty JSON", "{}", "the policy is empty"},
		{"unlabelled namespace", `namespace { policy = "write" }`, "line 1, column 1: a name in quotes is missing"},
		{"unlabelled after a labelled one", "namespace \"a\" { policy = \"deny\" }\n\n namespace { policy = \"write\" }",
			"line 3, column 2: a name in quotes is missing"},
		{"unlabelled node_pool", `node_pool { policy = "write" }`, "a name in quotes is missing"},
		{"unlabelled host_volume", `host_volume { policy = "write" }`, "a name in quotes is missing"},
		{"unlabelled path", ns(`variables { path { capabilities = ["read"] } }`), "line 2, column 15: a name in quotes is missing"},
		{"unlabelled in JSON", `{"namespace": {"policy": "write"}}`, `line 1, column 16: a name is missing`},
		{"unlabelled capabilities in JSON", `{"namespace": {"capabilities": ["read-job"]}}`, "a name is missing"},
		{"namespace list of nothing in JSON", `{"namespace": []}`, `"namespace" must be a block, not a list`},
		{"namespace of nothing in JSON", `{"namespace": {}}`, `"namespace" has no named blocks`},
		{"label in place of a block", `{"namespace": "default"}`, `"namespace" must be a block, not a string`},
		{"nested in HCL", `namespace { "default" { policy = "write" } }`, "a name in quotes is missing"},
		{"two labels", `namespace "a" "b" { policy = "read" }`, "column 15: namespace must have one name, not 2"},
		{"label without quotes", `namespace default { policy = "read" }`, "column 11: expected = or {, not \"default\""},
		{"labelled node", `node "x" { policy = "read" }`, "column 6: node must not have a name"},
		{"labelled variables", ns(`variables "x" { path "a" { capabilities = ["read"] } }`), "variables must not have a name"},
		{"labelled key", ns(`policy "x" = "read"`), "policy must not have a name"},
		{"empty label", `namespace "" { policy = "read" }`, `invalid namespace name ""`},
		{"name with a space", `namespace "a b" { policy = "read" }`, `invalid namespace name "a b"`},
		{"name of a regular expression", `node_pool "a.+" { policy = "read" }`, `invalid node_pool name "a.+"`},
		{"namespace with an underscore", `namespace "a_b" { policy = "read" }`, `invalid namespace name "a_b"`},
		{"volume with an underscore", `host_volume "a_b" { policy = "read" }`, `invalid host_volume name "a_b"`},
		{"long name", `namespace "` + strings.Repeat("a", 129) + `" { policy = "read" }`, "invalid namespace name"},
		{"path with a space", ns(`variables { path "a b" { capabilities = ["read"] } }`), `invalid variable path "a b"`},
		{"duplicate namespace", "namespace \"a\" { policy = \"deny\" }\nnamespace \"a\" { policy = \"write\" }",
			`line 2, column 1: duplicate namespace "a": the first is on line 1`},
		{"duplicate namespace in JSON", "{\"namespace\": {\"a\": {\"policy\": \"deny\"},\n\"a\": {\"policy\": \"write\"}}}",
			`line 2, column 1: duplicate namespace "a": the first is on line`},
		{"duplicate block in JSON", "{\"namespace\": {\"a\": {\"policy\": \"deny\"}},\n\"namespace\": {\"a\": {\"policy\": \"write\"}}}",
			`line 2, column 15: duplicate namespace "a": the first is on line`},
		{"duplicate body in JSON", `{"namespace": {"a": [{"policy": "deny"}, {"policy": "write"}]}}`,
			`duplicate namespace "a": the first is on line`},
		{"duplicate node", "node { policy = \"deny\" }\nnode { policy = \"write\" }", "line 2, column 1: duplicate node: the first is on line 1"},
		{"duplicate key", ns("policy = \"deny\"\n  policy = \"write\""),
			`line 3, column 3: duplicate policy of namespace "default": the first is on line 2`},
		{"duplicate key in JSON", `{"node": {"policy": "deny", "policy": "write"}}`, "duplicate policy of node: the first is on line"},
		{"duplicate capabilities", ns("capabilities = [\"deny\"]\n  capabilities = [\"read-job\"]"),
			"duplicate capabilities of namespace \"default\": the first is on line"},
		{"duplicate variables", ns("variables {\n path \"a\" { capabilities = [\"deny\"] }\n }\n variables {\n path \"b\" { capabilities = [\"read\"] }\n }"), `line 5, column 2: duplicate variables of namespace "default": the first is on line`},
		{"duplicate path", ns("variables {\n path \"a\" { capabilities = [\"deny\"] }\n path \"a\" { capabilities = [\"read\"] }\n }"),
			`line 4, column 2: duplicate path "a" of namespace "default": the first is on line`},
		{"unknown block", `namespaces "default" { policy = "read" }`, `line 1, column 1: unknown block "namespaces"; did you mean "namespace"?`},
		{"block in capitals", `Namespace "default" { policy = "read" }`, `did you mean "namespace"?`},
		{"variables at the top", `variables { path "a" { capabilities = ["read"] } }`, `unknown block "variables"`},
		{"misspelt key", ns(`polcy = "read"`), `line 2, column 3: namespace "default" has no key "polcy"; did you mean "policy"?`},
		{"misspelt path", ns(`variables { paths "a" { capabilities = ["read"] } }`),
			`variables of namespace "default" has no key "paths"; did you mean "path"?`},
		{"misspelt key of a path", ns(`variables { path "a" { capability = ["read"] } }`),
			`path "a" of namespace "default" has no key "capability"; did you mean "capabilities"?`},
		{"policy of a path", ns(`variables { path "a" { policy = "read" } }`), `has no key "policy"; want capabilities`},
		{"variables of a pool", `node_pool "a" { variables { } }`, `node_pool "a" has no key "variables"`},
		{"capabilities of node", `node { capabilities = ["read"] }`, `node has no key "capabilities"; want policy`},
		{"unknown capability", ns(`capabilities = ["read-job", "read-jobs"]`),
			`line 2, column 31: namespace has no capability "read-jobs"; did you mean "read-job"?`},
		{"short form as capability", ns(`capabilities = ["write"]`), `namespace has no capability "write"`},
		{"capability of another kind", `node_pool "a" { capabilities = ["destroy"] }`,
			`node_pool has no capability "destroy"; want deny, read, write, delete`},
		{"capability in capitals", ns(`capabilities = ["READ-JOB"]`), `did you mean "read-job"?`},
		{"empty capability", ns(`capabilities = [""]`), `namespace has no capability ""`},
		{"unknown policy", ns(`policy = "wriet"`), `line 2, column 12: namespace has no policy "wriet"; did you mean "write"?`},
		{"scale of a pool", `node_pool "a" { policy = "scale" }`, `node_pool has no policy "scale"; want deny, read, write`},
		{"list of quotas", `quota { policy = "list" }`, `quota has no policy "list"; want deny, read, write`},
		{"empty policy", ns(`policy = ""`), `namespace has no policy ""`},
		{"empty block", `namespace "a" { }`, `namespace "a" is empty`},
		{"empty node", `node { }`, `node is empty`},
		{"empty capabilities", ns(`capabilities = []`), "line 2, column 18: capabilities is empty"},
		{"empty variables", ns(`variables { }`), `variables of namespace "default" is empty`},
		{"empty path", ns(`variables { path "a" { } }`), `path "a" of namespace "default" is empty`},
		{"policy is a list", ns(`policy = ["read"]`), "policy must be one of deny, read, scale, write, not a list"},
		{"policy is null", `{"node": {"policy": null}}`, "policy must be one of deny, read, write, not a number, true, false or null"},
		{"capabilities is a string", ns(`capabilities = "read-job"`), "capabilities must be a list of strings, not a string"},
		{"capability is a number", ns(`capabilities = [1]`), "a capability must be a string, not a number"},
		{"node is a string", `node = "read"`, `"node" must be a block, not a string`},
		{"node is a list of strings", `{"node": ["read"]}`, `"node" must be a block, not a list`},
		{"open block", "namespace \"a\" {\n  policy = \"read\"", "line 2, column 18: unexpected end of the policy: missing }"},
		{"open string", "namespace \"a {\n}", "literal not terminated"},
		{"open list", `node { policy = ["a"`, "expected a comma or ] in the list"},
		{"extra brace", "node { policy = \"read\" }\n}", `line 2, column 1: expected a key or a block, not "}"`},
		{"heredoc", ns("policy = <<EOF\nread\nEOF\n"), "a string must be in quotes here"},
		{"bare word", ns(`policy = read`), "expected a string, a list or a block"},
		{"broken JSON", `{"node": {"policy" "read"}}`, "line 1, column 20: invalid JSON"},
		{"open JSON", "{\"node\": {\"policy\":\n \"read\"}", "line 2, column 9: unexpected end of JSON"},
		{"two JSON texts", `{"node": {"policy": "read"}} {"node": {"policy": "write"}}`, "line 1, column 30: unexpected text after the policy"},
		{"not UTF-8", "node { policy = \"r\xff\" }", "line 1, column 19: the text is not UTF-8"},
		{"a NUL", "node { policy = \"read\" }\x00namespace", "forbidden character"},
		{"deep", strings.Repeat("a {", 100000), "nested too deep"},
		{"deep list", "a = " + strings.Repeat("[", 100000), "nested too deep"},
		{"deep JSON", strings.Repeat(`{"a":`, 50000), "nested too deep"},
		{"long", strings.Repeat("# a comment\n", 50000), "at most 512 are allowed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := acl.Parse(tt.src)
			var list *acl.Error
			if p != nil || !errors.As(err, &list) {
				t.Fatalf("Parse = %v, %v", p, err)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Parse() = %s\nwant %s", err, tt.want)
			}
		})
	}
}

func TestParseReportsAllFaults(t *testing.T) {
	_, err := acl.Parse("namespace \"a\" {\n  polici = \"read\"\n  capabilities = [\"x\"]\n}\nnodes {}\n")
	var list *acl.Error
	if !errors.As(err, &list) {
		t.Fatal(err)
	}
	var at []string
	for _, f := range list.Faults {
		at = append(at, fmt.Sprint(f.Pos.Line, ":", f.Pos.Column))
	}
	if got := strings.Join(at, " "); got != "2:3 3:19 5:1" {
		t.Errorf("faults at %s:\n%s", got, err)
	}
}

func TestNamesWithACommonPrefix(t *testing.T) {
	long := strings.Repeat("a", 100)
	parse(t, fmt.Sprintf("namespace \"%s-1\" {\n policy = \"read\"\n}\nnamespace \"%s-2\" {\n policy = \"read\"\n}", long, long))
}

// TestHostileTexts checks that long texts are parsed in linear time.
func TestHostileTexts(t *testing.T) {
	const size = 128 << 10
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	for name, src := range map[string]string{
		"unknown blocks":       fill("a {}\n"),
		"misspelt keys":        "node {" + fill("polici=1\n") + "}",
		"duplicates":           fill("node {policy=\"read\"}\n"),
		"capabilities":         "namespace \"a\" { capabilities = [" + fill("\"read-joc\",") + "] }",
		"labels":               fill("a \"b\" "),
		"comments":             fill("/* */ # x\n"),
		"open comment":         "/*" + fill("*"),
		"open string":          "a = \"" + fill("x"),
		"interpolations":       "a = \"" + fill("${"),
		"heredoc":              "a = <<X\n" + fill("Y\n"),
		"one word":             fill("a"),
		"one number":           "a = " + fill("1"),
		"JSON keys":            "{" + fill(`"a":1,`) + `"b":1}`,
		"JSON list":            `{"namespace": {"a": {"capabilities": [` + fill("1,") + "1]}}}",
		"JSON spaces":          "{" + fill(" ") + "x",
		"JSON namespaces":      `{"namespace": {` + fill(`"a":{},`) + `"b":{}}}`,
		"JSON string, escapes": `{"` + fill(`\u0061`) + `": 1}`,
	} {
		start := time.Now()
		if _, err := acl.Parse(src); err == nil {
			t.Errorf("%s: no error", name)
		} else if len(err.Error()) > 100*maxLine {
			t.Errorf("%s: error has %d bytes", name, len(err.Error()))
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s takes %v", name, took)
		} else if testing.Verbose() {
			t.Logf("%s takes %v", name, took)
		}
	}
}

const maxLine = 200

func FuzzParse(f *testing.F) {
	for _, seed := range []string{everything, everythingJSON, `namespace { policy = "write" }`, `{"namespace": {"policy": "write"}}`,
		"node {", "a = <<X\nX\n", `{"a":[{}]}`} {
		f.Add(seed)
	}
	ask := questions([]string{"default", "prod-1"}, []string{"app/x"}, nil)
	f.Fuzz(func(t *testing.T, src string) {
		p, err := acl.Parse(src)
		if (p == nil) == (err == nil) {
			t.Fatalf("Parse = %v, %v", p, err)
		}
		if err != nil {
			var list *acl.Error
			if !errors.As(err, &list) || len(list.Faults) == 0 {
				t.Fatalf("Parse = %v", err)
			}
			lines := strings.Count(src, "\n") + 1
			for _, fault := range list.Faults {
				if fault.Pos.Line < 1 || fault.Pos.Line > lines || fault.Pos.Column < 1 {
					t.Errorf("position %s is outside of %d lines: %s", fault.Pos, lines, fault.Message)
				}
			}
			return
		}
		a := acl.New(false, p)
		for _, q := range ask {
			_ = a.Explain(q).String()
		}
	})
}
