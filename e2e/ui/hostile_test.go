package ui

// rightToLeft is text in Hebrew between an override of the direction and its end.
const rightToLeft = "\u202e\u05e9\u05dc\u05d5\u05dd\u202c"
