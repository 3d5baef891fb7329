// Command plots makes the documentation page about performance from a file of results that make
// bench wrote. The page has a table of all figures. Its chart has those whose target and measured
// value are one number of the same unit. The command only divides values by targets; all figures
// come from the file.
//
// Usage: plots RESULTS DOCS. It writes the generated part of DOCS/performance.md, and
// DOCS/performance.svg.
package main
