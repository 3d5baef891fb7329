// Command plots makes the page of the documentation about performance from a file of results that
// make bench wrote: a table of all figures, and a chart of those whose target and measured value are
// one number of the same unit. It computes shares of targets and nothing else, and no figure comes
// from another place.
//
// Usage: plots RESULTS DOCS. It writes the generated part of DOCS/performance.md, and
// DOCS/performance.svg.
package main
