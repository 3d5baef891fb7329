package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const line = "--------------------------------------------------------------------------------\n"

// licences returns the identifiers of a component's licences, without repetitions.
func (c component) licences() []string {
	var ids []string
	for _, t := range c.texts {
		for _, id := range t.licences {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// texts returns the file of all texts: a table of the components, then each text once, with the names of
// those that have it.
func texts(all []component) string {
	var b strings.Builder
	b.WriteString(`The programs of open-nomad contain these libraries. "go mod download MODULE@VERSION" gets the source code
of a Go module, and "npm pack NAME@VERSION" that of a package of the web UI. The source code of std is in each
distribution of Go with its version. open-nomad itself is licensed under the Mozilla Public License 2.0.

`)
	var order []string
	users := map[string][]string{}
	for _, c := range all {
		fmt.Fprintf(&b, "%s %s: %s\n", c.name, c.version, strings.Join(c.licences(), ", "))
		for _, t := range c.texts {
			body := strings.TrimSpace(strings.ReplaceAll(t.body, "\r\n", "\n")) + "\n"
			if users[body] == nil {
				order = append(order, body)
			}
			users[body] = append(users[body], fmt.Sprintf("%s %s: %s\n", c.name, c.version, t.path))
		}
	}
	for _, body := range order {
		b.WriteString("\n" + line + strings.Join(users[body], "") + line + "\n" + body)
	}
	return b.String()
}

var (
	holder = regexp.MustCompile(`(?m)^[\s#/*]*((?:Portions )?Copyright (?:\([cC]\)|©|[0-9]{4}|[A-Z]).*|\([cC]\) Copyright .*|© .*)$`)
	// sample matches the notices that belong to the text of a licence.
	sample = regexp.MustCompile(`<year>|Free Software Foundation`)
)

// holders returns the copyright notices of a component.
func (c component) holders() []string {
	var all []string
	for _, t := range c.texts {
		for _, m := range holder.FindAllStringSubmatch(t.body, -1) {
			h := strings.TrimSpace(m[1])
			if !sample.MatchString(h) && !slices.Contains(all, h) {
				all = append(all, h)
			}
		}
	}
	if len(all) == 0 {
		all = []string{"The authors of " + c.name}
	}
	return all
}

// stanzas returns the paragraphs of the components in Debian's copyright format, then one of each licence.
func stanzas(all []component) string {
	names := map[string]string{}
	for _, k := range allowed {
		names[k.id] = k.debian
	}
	var b strings.Builder
	var used []string
	for _, c := range all {
		var ids []string
		for _, id := range c.licences() {
			ids = append(ids, names[id])
			if !slices.Contains(used, names[id]) {
				used = append(used, names[id])
			}
		}
		fmt.Fprintf(&b, "\nFiles: %s\nCopyright: %s\nLicense: %s\nComment: %s %s\n", strings.ReplaceAll(c.files, " ", "\n "),
			strings.Join(c.holders(), "\n "), strings.Join(ids, " and "), c.name, c.version)
	}
	slices.SortFunc(used, cmp.Compare)
	for _, name := range used {
		if name == "MPL-2.0" {
			continue // the head has its paragraph
		}
		fmt.Fprintf(&b, "\nLicense: %s\n", name)
		if name == "Apache-2.0" {
			b.WriteString(" On Debian systems, the text of the Apache License version 2.0 is in\n /usr/share/common-licenses/Apache-2.0.\n")
		}
		b.WriteString(" The text of each component is in THIRD-PARTY-LICENSES.gz in this directory.\n")
	}
	return b.String()
}
