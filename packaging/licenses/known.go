package main

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// kind is what a file of a module states.
type kind int

const (
	licence kind = 1
	notice  kind = 2 // a text that is shipped with the licence
)

var (
	licenceName = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying)([-._].*)?$`)
	noticeName  = regexp.MustCompile(`(?i)^(notices?|patents|copyright)([-._].*)?$`)
)

// kindOf returns the kind of a file by its name, 0 for other files.
func kindOf(name string) kind {
	switch {
	case strings.HasSuffix(name, ".go"):
		return 0
	case licenceName.MatchString(name):
		return licence
	case noticeName.MatchString(name):
		return notice
	}
	return 0
}

// unlinked lists licences of parts of a module that are in no program.
var unlinked = map[string]bool{
	"github.com/opencontainers/go-digest/LICENSE.docs": true, // of its documentation
}

// chosen lists the files that offer two licences, with the one under which a release contains the module.
var chosen = map[string][]string{
	"kernel.org/pub/linux/libs/security/libcap/psx/License": {"BSD-3-Clause"}, // or GPL-2.0-only
}

// known is a licence that a library may have. A text has it when it contains all phrases.
type known struct {
	id      string // of SPDX
	debian  string // of Debian's copyright format
	phrases []string
}

// allowed lists the licences that programs under MPL-2.0 may contain. The phrases are in lower case,
// with one space between words.
var allowed = []known{
	{"Apache-2.0", "Apache-2.0", []string{"apache license", "version 2.0, january 2004", "grant of patent license",
		"redistribution. you may reproduce"}},
	{"Apache-2.0", "Apache-2.0", []string{"licensed under the apache license, version 2.0", "http://www.apache.org/licenses/license-2.0"}},
	{"MPL-2.0", "MPL-2.0", []string{"mozilla public license", "version 2.0", "1.10. \"modifications\"",
		"exhibit a - source code form license notice"}},
	{"BSD-3-Clause", "BSD-3-clause", []string{"redistribution and use in source and binary forms",
		"redistributions in binary form must reproduce",
		"to endorse or promote products derived from this software without specific prior written permission", "in no event shall"}},
	{"BSD-2-Clause", "BSD-2-clause", []string{"redistribution and use in source and binary forms",
		"redistributions in binary form must reproduce", "in no event shall"}},
	{"MIT", "Expat", []string{"permission is hereby granted, free of charge, to any person obtaining a copy",
		"the above copyright notice and this permission notice", "the software is provided \"as is\""}},
	{"ISC", "ISC", []string{"permission to use, copy, modify, and", "distribute this software for any purpose with " +
		"or without fee is hereby granted", "the software is provided \"as is\""}},
	{"Unlicense", "Unlicense", []string{"this is free and unencumbered software released into the public domain"}},
}

// forbidden are phrases of licences whose terms a program under MPL-2.0 cannot meet. They are looked for
// first: a file may contain several licences.
var forbidden = []struct{ phrase, id string }{
	{"business source license", "BUSL"},
	{"gnu affero general public license", "AGPL"},
	{"gnu lesser general public license", "LGPL"},
	{"gnu general public license", "GPL"},
	{"server side public license", "SSPL"},
	{"commons clause", "Commons-Clause"},
	{"elastic license", "Elastic"},
	{"common development and distribution", "CDDL"},
	{"attribution-noncommercial", "CC-BY-NC"},
}

// secondary are the places of the MPL that name the licences of the GNU project as secondary ones.
var secondary = regexp.MustCompile(`"secondary license" means .*? or any later versions of those licenses`)

var (
	comments = regexp.MustCompile(`(?m)^\s*(//+|#+|>+|\*+)\s?`)
	spaces   = regexp.MustCompile(`\s+`)
	quotes   = strings.NewReplacer("“", `"`, "”", `"`, "``", `"`, "''", `"`, "’", "'", "–", "-")
)

// plain returns a text in lower case with one space between words.
func plain(body string) string {
	return spaces.ReplaceAllString(quotes.Replace(strings.ToLower(comments.ReplaceAllString(body, ""))), " ")
}

// recognise returns the identifiers of the licences in a text.
func recognise(body string) ([]string, error) {
	words := plain(body)
	rest := secondary.ReplaceAllString(words, "")
	for _, f := range forbidden {
		if strings.Contains(rest, f.phrase) {
			return nil, errors.New("the licence " + f.id + " is not allowed: remove the module")
		}
	}
	var ids []string
	for _, k := range allowed {
		if k.id == "BSD-2-Clause" && slices.Contains(ids, "BSD-3-Clause") || slices.Contains(ids, k.id) {
			continue // the longer one has all phrases of the shorter one
		}
		if !slices.ContainsFunc(k.phrases, func(p string) bool { return !strings.Contains(words, p) }) {
			ids = append(ids, k.id)
		}
	}
	if len(ids) == 0 {
		return nil, errors.New("the licence is unknown: read it, and add it to packaging/licenses/known.go if MPL-2.0 programs may contain it")
	}
	return ids, nil
}
