// Package docs tests the documentation and what is generated for it: snippets, pages, jobspecs, shell completion,
// bundles and profiles.
package docs
