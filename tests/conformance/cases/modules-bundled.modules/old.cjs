"use strict";
exports.answer = 42;
exports.where = typeof module;
