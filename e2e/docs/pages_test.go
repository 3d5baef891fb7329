package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// pagesDir has the documentation.
const pagesDir = "../../website/content/docs"

// maxLine is the length of a line of a page in characters.
const maxLine = 120

// docPage is one file of the documentation.
type docPage struct {
	name   string // relative to pagesDir
	text   string
	blocks []docBlock
}

// docBlock is one fenced block of a page.
type docBlock struct {
	line int    // of the opening fence
	lang string // the word after the fence
	note string // the text of an HTML comment directly before the fence
	text string
}

// skipped reports whether the block has a marker with the reason why it is neither run nor checked.
func (b docBlock) skipped() bool {
	reason, ok := strings.CutPrefix(b.note, "not run: ")
	return ok && reason != ""
}

var (
	comment = regexp.MustCompile(`^<!-- (.*) -->$`)
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	inCode  = regexp.MustCompile("`[^`]*`")
	heading = regexp.MustCompile(`^#+ +(.*)$`)
	notSlug = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// pages reads every page below pagesDir.
func pages(t *testing.T) []docPage {
	t.Helper()
	var all []docPage
	err := filepath.WalkDir(pagesDir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(pagesDir, path)
		all = append(all, docPage{name, string(b), blocksOf(string(b))})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// blocksOf returns the fenced blocks of a page. Fences may be indented, as in a list.
func blocksOf(text string) []docBlock {
	var all []docBlock
	var open *docBlock
	note, indent := "", ""
	for i, line := range strings.Split(text, "\n") {
		bare := strings.TrimLeft(line, " ")
		switch {
		case open == nil && strings.HasPrefix(bare, "```"):
			indent = line[:len(line)-len(bare)]
			open = &docBlock{line: i + 1, lang: strings.TrimPrefix(bare, "```"), note: note}
		case open != nil && bare == "```":
			all = append(all, *open)
			open = nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		}
		note = ""
		if m := comment.FindStringSubmatch(bare); m != nil {
			note = m[1]
		}
	}
	return all
}

// prose returns the lines of a page outside of fenced blocks; lines inside are empty.
func prose(text string) []string {
	lines, code := strings.Split(text, "\n"), false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimLeft(line, " "), "```")
		if fence {
			code = !code
		}
		if fence || code {
			lines[i] = ""
		}
	}
	return lines
}

// anchors returns the anchors of the headings of a page, as GitHub makes them.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, line := range prose(text) {
		m := heading.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		title := link.ReplaceAllString(m[1], "]")
		slug := strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
		if all[slug] {
			n := 1
			for all[slug+"-"+strconv.Itoa(n)] {
				n++
			}
			slug += "-" + strconv.Itoa(n)
		}
		all[slug] = true
	}
	return all
}

// TestPageNavigation checks that the generator of the site has each page of the top folder, since it stops without.
func TestPageNavigation(t *testing.T) {
	navigation, err := os.ReadFile("../../website/generator/navigation.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages(t) {
		name := strings.TrimSuffix(p.name, ".md")
		if name != "index" && !strings.Contains(name, "/") && !strings.Contains(string(navigation), "'"+name+"'") {
			t.Errorf("website/generator/navigation.js lacks the page %s", name)
		}
	}
}

// TestPageLines checks that the lines of every page have at most maxLine characters, and that
// blocks with a prompt are marked as console blocks, so that TestSnippets runs them.
func TestPageLines(t *testing.T) {
	for _, p := range append(pages(t), rootPages(t)...) {
		for i, line := range strings.Split(p.text, "\n") {
			if n := utf8.RuneCountInString(line); n > maxLine {
				t.Errorf("%s:%d: %d characters, at most %d", p.name, i+1, n, maxLine)
			}
		}
		for _, b := range p.blocks {
			if b.lang != "console" && strings.HasPrefix(b.text, "$ ") {
				t.Errorf("%s:%d: a block with a prompt needs the language console", p.name, b.line)
			}
		}
	}
}

// rootPages reads the pages at the root of the repository.
func rootPages(t *testing.T) []docPage {
	t.Helper()
	var all []docPage
	for _, name := range []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"} {
		b, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		up, err := filepath.Rel(pagesDir, filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, docPage{up, string(b), blocksOf(string(b))})
	}
	return all
}

// TestPageLinks checks that every link between pages names a page and an anchor that exist, and
// that every page can be reached from index.md.
func TestPageLinks(t *testing.T) {
	all := pages(t)
	targets, linked := map[string]map[string]bool{}, map[string][]string{}
	for _, p := range all {
		targets[p.name] = anchors(p.text)
	}
	for _, p := range append(all, rootPages(t)...) {
		for i, line := range prose(p.text) {
			for _, m := range link.FindAllStringSubmatch(inCode.ReplaceAllString(line, ""), -1) {
				if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
					continue
				}
				file, anchor, _ := strings.Cut(m[1], "#")
				to := p.name
				if file != "" {
					to = filepath.Join(filepath.Dir(p.name), file)
				}
				if _, err := os.Stat(filepath.Join(pagesDir, to)); err != nil {
					t.Errorf("%s:%d: the link %s leads nowhere", p.name, i+1, m[1])
				} else if have, ok := targets[to]; ok && anchor != "" && !have[anchor] {
					t.Errorf("%s:%d: %s has no heading for #%s", p.name, i+1, to, anchor)
				}
				linked[p.name] = append(linked[p.name], to)
			}
		}
	}
	reached := map[string]bool{"index.md": true}
	for next := []string{"index.md"}; len(next) > 0; next = next[1:] {
		for _, to := range linked[next[0]] {
			if !reached[to] {
				reached[to] = true
				next = append(next, to)
			}
		}
	}
	for _, p := range all {
		if !reached[p.name] {
			t.Errorf("%s cannot be reached from index.md", p.name)
		}
	}
}
