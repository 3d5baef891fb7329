package site

import (
	"encoding/json"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// document is a parsed page of the site.
type document struct {
	name     string // relative to the directory of all versions
	ids      map[string]bool
	links    []reference
	headings []int // levels, in order
	title    string
	lang     string
}

// reference is a URL in an attribute of an element.
type reference struct{ element, url string }

// documents parses all pages of both versions.
func documents(t *testing.T) map[string]*document {
	t.Helper()
	dir, all := site(t), map[string]*document{}
	err := filepath.WalkDir(dir, func(file string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".html" {
			return err
		}
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		root, err := html.Parse(f)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, file)
		d := &document{name: name, ids: map[string]bool{}}
		for n := range root.Descendants() {
			if n.Type == html.ElementNode {
				d.add(t, n)
			}
		}
		all[name] = d
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 200 {
		t.Fatalf("%d pages, at least 200 were expected", len(all))
	}
	return all
}

func (d *document) add(t *testing.T, n *html.Node) {
	t.Helper()
	for _, a := range n.Attr {
		switch a.Key {
		case "id":
			if d.ids[a.Val] {
				t.Errorf("%s: the ID %s is used twice", d.name, a.Val)
			}
			d.ids[a.Val] = true
		case "href", "src":
			d.links = append(d.links, reference{n.Data, a.Val})
		case "lang":
			d.lang = a.Val
		case "style":
			t.Errorf("%s: a style attribute at <%s>", d.name, n.Data)
		}
	}
	switch n.Data {
	case "h1", "h2", "h3", "h4", "h5", "h6":
		d.headings = append(d.headings, int(n.Data[1]-'0'))
	case "title":
		if n.Parent.Data == "head" {
			d.title = n.FirstChild.Data
		}
	}
}

// TestLinks checks that each link leads to a file and an anchor of the site. Only links that a reader
// follows may lead to other hosts, over https; they are not contacted.
func TestLinks(t *testing.T) {
	all, checked := documents(t), 0
	for _, d := range all {
		for _, l := range d.links {
			u, err := url.Parse(l.url)
			if err != nil {
				t.Errorf("%s: %v", d.name, err)
				continue
			}
			if u.Scheme != "" || u.Host != "" {
				if l.element != "a" || u.Scheme != "https" || u.Host == "" {
					t.Errorf("%s: <%s> refers to %s", d.name, l.element, l.url)
				}
				continue
			}
			checked++
			checkTarget(t, all, d, u)
		}
	}
	if checked < 10000 {
		t.Errorf("%d links, at least 10000 were expected", checked)
	}
}

func checkTarget(t *testing.T, all map[string]*document, d *document, u *url.URL) {
	t.Helper()
	to := d.name
	if u.Path != "" {
		to = path.Join(path.Dir(d.name), u.Path)
	}
	if _, err := os.Stat(filepath.Join(site(t), to)); err != nil || strings.HasPrefix(to, "..") {
		t.Errorf("%s: the link %s leads nowhere", d.name, u)
	} else if page := all[to]; u.Fragment != "" && (page == nil || !page.ids[u.Fragment]) {
		t.Errorf("%s: %s has no anchor %s", d.name, to, u.Fragment)
	}
}

// TestHeadings checks the outline of each page: one h1, first, and no level is left out.
func TestHeadings(t *testing.T) {
	for _, d := range documents(t) {
		if d.title == "" || d.lang != "en" {
			t.Errorf("%s: title %q, language %q", d.name, d.title, d.lang)
		}
		if d.name == "index.html" { // leads to the newest version
			continue
		}
		for i, level := range d.headings {
			switch {
			case i == 0 && level != 1, i > 0 && level == 1:
				t.Errorf("%s: heading %d has level %d", d.name, i+1, level)
			case i > 0 && level > d.headings[i-1]+1:
				t.Errorf("%s: heading %d of level %d follows one of level %d", d.name, i+1, level, d.headings[i-1])
			}
		}
		if len(d.headings) == 0 {
			t.Errorf("%s has no heading", d.name)
		}
	}
}

// TestSearchIndex checks that each section of each page is in the index once, and that each entry
// leads to its section.
func TestSearchIndex(t *testing.T) {
	all := documents(t)
	text, err := os.ReadFile(filepath.Join(site(t), newest, "assets", "index.js"))
	if err != nil {
		t.Fatal(err)
	}
	var index struct {
		StoredFields map[string]struct{ Page, Heading, Href, Excerpt string }
	}
	body, ok := strings.CutPrefix(string(text), "window.searchIndex = ")
	if !ok {
		t.Fatalf("the index begins with %.40q", text)
	}
	if err := json.Unmarshal([]byte(body), &index); err != nil {
		t.Fatal(err)
	}
	entries := map[string]int{}
	for _, e := range index.StoredFields {
		u, err := url.Parse(e.Href)
		if err != nil || e.Page == "" {
			t.Errorf("the entry %+v has no page: %v", e, err)
			continue
		}
		entries[path.Join(newest, u.Path)]++
		checkTarget(t, all, all[newest+"/index.html"], u)
	}
	for name, d := range all {
		if strings.HasPrefix(name, newest+"/") && entries[name] != len(d.headings) {
			t.Errorf("%s: %d entries for %d headings", name, entries[name], len(d.headings))
		}
	}
}

// TestVersions checks the list of versions: the newest is the first, by number and not by letter.
func TestVersions(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(site(t), "versions.json"))
	if err != nil {
		t.Fatal(err)
	}
	var versions []struct {
		Version string
		Pages   []string
	}
	if err := json.Unmarshal(text, &versions); err != nil {
		t.Fatal(err)
	}
	if len(versions) != 2 || versions[0].Version != newest || versions[1].Version != older {
		t.Errorf("versions.json lists %+v", versions)
	}
	for _, v := range versions {
		if len(v.Pages) < 100 {
			t.Errorf("version %s has %d pages", v.Version, len(v.Pages))
		}
	}
}
