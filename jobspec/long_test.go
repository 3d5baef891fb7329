package jobspec_test

import (
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Texts of many pieces are not read by the library's parser, but as it would.
func TestLongTextsReadAsShortOnes(t *testing.T) {
	repeat := func(lines ...string) string { return strings.Repeat(strings.Join(lines, ""), 300) }
	for name, expr := range map[string]string{
		"dollars":      `"` + repeat("a$b%", "$$c", "%%d", "e ") + `"`,
		"escapes":      `"` + repeat(`\n\t\\ \" $x \u00e9 `) + `"`,
		"escaped refs": `"` + repeat("$${x} %%{y} $") + `"`,
		"heredoc":      "<<EOT\n" + repeat("  a\n", "\n", "   \n", "b $x $${y} %%{z}\n") + "EOT\n",
		"flush":        "<<-EOT\n" + repeat("    a\n", "\n", "  \n", "      b $x $${y}\n") + "    EOT\n",
		"flush tabs":   "<<-EOT\n" + repeat("\t\t\ta\n", "\t\tb\n") + "EOT\n",
		"flush none":   "<<-EOT\n" + repeat("a\n", "  b\n") + "  EOT\n",
		"flush dollar": "<<-EOT\n" + repeat("   $a\n", "    $$b\n") + "EOT\n",
		"wide":         "<<-EOT\n" + repeat("    é日本\n", "     x\n") + "EOT\n",
	} {
		t.Run(name, func(t *testing.T) {
			e, diags := hclsyntax.ParseExpression([]byte(expr), "x", hcl.InitialPos)
			if diags.HasErrors() {
				t.Fatal(diags)
			}
			want, _ := e.Value(nil)
			job := mustParse(t, "job \"a\" {\n  region = "+expr+"\n  namespace = \"after\"\n}")
			if *job.Region != want.AsString() {
				t.Errorf("got %q...", (*job.Region)[:min(len(*job.Region), 100)])
			}
			if *job.Namespace != "after" {
				t.Errorf("what follows the text is %q", *job.Namespace)
			}
		})
	}
}

// Places after a long text are still right.
func TestPlacesAfterLongText(t *testing.T) {
	src := "job \"a\" {\n  region = <<EOT\n" + strings.Repeat("line\n", 400) + "EOT\n  nosuch = 1\n}"
	_, err := parseText(src)
	if err == nil || !strings.HasPrefix(err.Error(), "a.hcl:404:3: ") {
		t.Errorf("error %v, want it at a.hcl:404:3", err)
	}
	label := strings.Repeat("$x", 400)
	job, err := parseText("job \"" + label + "\" {}")
	if err != nil || *job.ID != label {
		t.Errorf("a long label: %v", err)
	}
}
