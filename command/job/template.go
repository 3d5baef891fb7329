package job

import (
	"context"
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// templates is the path prefix of the variables that hold job templates. The item
// "template" is the jobspec.
const templates = "nomad/job-templates/"

// listTemplates prints the names of the templates.
func listTemplates(ctx context.Context, e *term.Env) error {
	c, err := e.Client()
	if err != nil {
		return err
	}
	found, _, err := c.Variables().PrefixList(templates, inNamespace(ctx, e.Namespace()))
	if err != nil {
		return fmt.Errorf("Error retrieving job templates from the server: %w", err)
	}
	if len(found) == 0 {
		e.Println("No job templates found")
		return nil
	}
	e.Println("Use nomad job init -template=<template> with any of the following:")
	for _, v := range found {
		e.Println("  " + strings.TrimPrefix(v.Path, templates))
	}
	return nil
}

// jobTemplate returns the jobspec of a template.
func jobTemplate(ctx context.Context, e *term.Env, name string) ([]byte, error) {
	c, err := e.Client()
	if err != nil {
		return nil, err
	}
	v, _, err := c.Variables().Read(templates+name, (&api.QueryOptions{Namespace: e.Namespace()}).WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("Error retrieving job template %q: %w", name, err)
	}
	if v == nil || v.Items["template"] == "" {
		return nil, fmt.Errorf("Job template %q not found: the variable %s%s has no item \"template\"", name, templates, name)
	}
	return []byte(v.Items["template"]), nil
}
