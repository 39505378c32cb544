ALTER TABLE `books` ADD `lent` integer DEFAULT false;
